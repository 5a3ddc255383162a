"""``method=supervised``: the labeled images alone (the paper's baseline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from semimedref import metrics
from semimedref.augment.plan import Plan
from semimedref.augment.views import View, Views
from semimedref.checkpoint import pick
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.model.segmenter import Outputs, Segmenter, TextFeatures, TextInput


class Supervised:
    """Dice + BCE on the weak view of labeled images (paper, Eq. sup)."""

    uses_unlabeled = False
    selects, segments = "dice", True
    routes: tuple[str, ...] = ()
    axes: Sequence[Mapping[str, Any]] = ()
    removal_key, removal_valid = "image_id", 0.0
    stages: Mapping[str, float] = MappingProxyType({})
    reads_masks, selects_on = True, "valid"

    def __init__(
        self, *, model: Segmenter, views: Views, loss: SegmentationLoss, text_dropout: bool
    ) -> None:
        self.student, self.loss = model, loss
        self.views = views.normalized_by(model.normalization)
        self.text_dropout = text_dropout
        self.draws = views.draws

    def to(self, device: object) -> Self:
        """Move the student."""
        self.student.to(device)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch the student between training and evaluation."""
        if self.student.training != mode:  # the step asks each time, and a walk takes 1 ms
            self.student.train(mode)
        return self

    def networks(self) -> list[nn.Module]:
        """The student."""
        return [self.student]

    def check_side(self, side: int) -> None:
        """Refuse a side that the student cannot take."""
        self.student.check_side(side)

    def prepare_text(self, sentences: Sequence[str]) -> TextInput:
        """Sentences for the student's text encoder."""
        return self.student.prepare_text(sentences)

    def start_from(self, name: str, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """No other run is needed."""
        raise AssertionError(f"{type(self).__name__} takes nothing over from a run '{name}'")

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Nothing is learned from the images as a whole."""

    def enter(self, stage: str) -> None:
        """Nothing changes but the images that are read."""

    def edit_labeled(self, batch: Batch) -> Batch:
        """Labeled sentences are read as they are."""
        return batch

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Everything of the student that learns."""
        return [group | {"lr_scale": 1.0} for group in self.student.parameter_groups()]

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """L_sup."""
        del unlabeled, progress
        view = self.views.labeled(labeled)
        outputs = self.student.outputs(view.image, self.student_text(labeled))
        loss_sup = self.objective(outputs, mask_of(view))
        return {"loss": loss_sup, "loss_sup": loss_sup}

    def objective(self, outputs: Outputs, target: Tensor) -> Tensor:
        """The segmentation loss: the student's own, or the one that all networks share."""
        return self.student.objective(outputs, target, self.loss)

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """Nothing is planned: there is no strong view."""
        del batch, progress
        return None

    def rehearsal(self, plan: Plan, side: int) -> Any:  # noqa: ANN401
        """A plan as it is."""
        del side
        return plan

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
    def predict(self, batch: Batch, *, weights: str, route: str | None = None) -> Tensor:
        """Foreground probability from the unchanged image."""
        self.check_route(route)
        network = self.network(weights)
        text = network.encode_text(batch.text)
        return network(network.normalized(batch.image), text).float().sigmoid()

    def measure(self, batch: Batch, *, threshold: float, weights: str, route: str | None) -> Tensor:
        """True positive, false positive and false negative pixels (B, 3)."""
        probability = self.predict(batch, weights=weights, route=route)
        return metrics.counts(probability, mask_of(batch), threshold=threshold)

    def summarize(self, table: np.ndarray) -> dict[str, float]:
        """Global Dice and mIoU, and Dice per image."""
        return metrics.summarize(table)

    def facts(self, side: int) -> dict[str, float]:
        """Nothing beside the scores."""
        del side
        return {}

    def check_route(self, route: str | None) -> None:
        """Refuse a route that this method does not have."""
        if route is None or route in self.routes:
            return
        if self.routes:
            raise UserError(f"route={route} is unknown: expected {', '.join(self.routes)}")
        raise UserError(
            f"route={route}: this run has no position token; expected a run of method=ispg, "
            "or removal=… alone"
        )

    def network(self, which: str) -> Segmenter:
        """The network of that name."""
        if which != "student":
            raise UserError(f"weights={which}: this method has a student only; use weights=student")
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


def mask_of(labeled: View | Batch) -> Tensor:
    """The mask of a labeled view or batch."""
    if labeled.mask is None:
        raise AssertionError("a labeled batch came without masks")
    return labeled.mask
