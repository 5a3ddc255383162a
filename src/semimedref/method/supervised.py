"""``method=supervised``: the labeled images alone (the paper's baseline)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from semimedref.augment.image import standardize
from semimedref.augment.plan import Plan
from semimedref.augment.views import View, Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.model.segmenter import Segmenter, TextFeatures


class Supervised:
    """Dice + BCE on the weak view of labeled images (paper, Eq. sup)."""

    uses_unlabeled = False

    def __init__(
        self, *, model: Segmenter, views: Views, loss: SegmentationLoss, text_dropout: bool
    ) -> None:
        self.student, self.views, self.loss = model, views, loss
        self.text_dropout = text_dropout
        self.draws = views.draws

    def to(self, device: object) -> Self:
        """Move the student."""
        self.student.to(device)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch the student between training and evaluation."""
        self.student.train(mode)
        return self

    def parameter_groups(self) -> list[dict[str, Any]]:
        """One group: everything that learns."""
        learns = [p for p in self.student.parameters() if p.requires_grad]
        return [{"params": learns, "lr_scale": 1.0}]

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """L_sup."""
        del unlabeled, progress
        view = self.views.weak(labeled)
        logits = self.student(standardize(view.image), self.student_text(labeled))
        loss_sup = self.loss(logits, mask_of(view))
        return {"loss": loss_sup, "loss_sup": loss_sup}

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """Nothing is planned: there is no strong view."""
        del batch, progress
        return None

    def after_step(self, progress: Progress) -> None:
        """Nothing follows a step."""

    def values(self, progress: Progress) -> dict[str, float]:
        """Nothing is scheduled."""
        del progress
        return {}

    def student_text(self, batch: Batch) -> TextFeatures:
        """The student's reading of the sentences, with dropout where the configuration asks."""
        return self.student.encode_text(batch.text, dropout=self.text_dropout)

    @torch.no_grad()
    def predict(self, batch: Batch, *, weights: str) -> Tensor:
        """Foreground probability from the unchanged image."""
        network = self.network(weights)
        text = network.encode_text(batch.text)
        return network(standardize(batch.image), text).float().sigmoid()

    def network(self, which: str) -> Segmenter:
        """The network of that name."""
        if which != "student":
            raise UserError(
                f"weights={which}: method=supervised has a student only; use weights=student"
            )
        return self.student

    def state_dict(self) -> dict[str, Any]:
        """The student."""
        return {"student": self.student.trainable_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the student."""
        self.student.load_trainable_state(pick(state, "student"))

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Weights worth keeping after training, by network."""
        return {"student": self.student.trainable_state()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take back what ``weights`` gave."""
        self.student.load_trainable_state(pick(state, "student"))


def mask_of(view: View) -> Tensor:
    """The mask of a labeled view."""
    if view.mask is None:
        raise AssertionError("a labeled batch came without masks")
    return view.mask
