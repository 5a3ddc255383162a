"""``method=vlm_pretraining``: images and their sentences are matched before any mask is seen.

The first stage of DuSSS and AMVLM, a run of its own: all training images, no mask, and a validation
score that needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.supervised import Supervised
from semimedref.method.teacher import Teacher
from semimedref.model.vlm.vlm import VLM, Slow

_EQUAL = 1e-6  # of two scores: what batches of other sizes may change


class VLMPretraining(Supervised):
    """A vision-language model and the slow twin that it is compared with.

    The twin sees the strong view (jitter and blur). Published: turned and flipped images, which
    would make left and right the same to the model.

    Args:
        model: the vision-language model.
        views: weak for the model, strong for its twin.
        momentum: of the twin.
        text_dropout: of the model's text encoder.
    """

    segments, selects, reads_masks = False, "match", False

    def __init__(self, *, model: VLM, views: Views, momentum: float, text_dropout: bool) -> None:
        self.student, self.teacher = model, Teacher(model)
        self.views, self.draws = views.normalized_by(model.normalization), views.draws
        self.momentum, self.text_dropout = momentum, text_dropout

    def to(self, device: object) -> Self:
        """Move both."""
        self.teacher.network.to(device)
        return super().to(device)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """The losses of the model on images without masks."""
        del unlabeled, progress
        weak = self.views.weak(labeled)
        image = self.views.normalize(weak.image)
        other = self.views.normalized(self.views.perturb(weak, labeled))
        slow = self.teacher.network
        with torch.no_grad():
            told = Slow(slow.see(other), slow.read(slow.encode_text(labeled.text)))
        return self.student.losses(image, self.student_text(labeled), slow, told)

    def after_step(self, progress: Progress) -> None:
        """The twin follows."""
        del progress
        self.teacher.follow(self.student, momentum=self.momentum)

    def predict(self, batch: Batch, *, weights: str, route: str | None = None) -> Tensor:
        """There is no mask to predict."""
        raise UserError("method=vlm_pretraining matches sentences and predicts no mask")

    @torch.no_grad()
    def measure(self, batch: Batch, *, threshold: float, weights: str, route: str | None) -> Tensor:
        """Vectors of images and of their sentences, side by side (B, 2 D)."""
        del threshold
        self.check_route(route)
        network = self.network(weights)
        seen = network.see(network.normalized(batch.image))
        words = network.read(network.encode_text(batch.text))
        return torch.cat([seen.whole, words.whole], 1)

    def summarize(self, table: np.ndarray) -> dict[str, float]:
        """How well images and sentences of a set match."""
        return {"match": match(*np.split(table.astype(np.float64), 2, axis=1))}

    def state_dict(self) -> dict[str, Any]:
        """The model and its twin."""
        return super().state_dict() | {"teacher": self.teacher.network.trainable_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take both back."""
        super().load_state_dict(state)
        self.teacher.network.load_trainable_state(pick(state, "teacher"))


def match(images: np.ndarray, sentences: np.ndarray) -> float:
    """Share of a set's sentences that fit an image less than its own does, a mean over images.

    Equal ones count half, its own as well, so chance is one half and sentences that occur twice do
    no harm.

    Args:
        images: (N, D), of length one.
        sentences: (N, D), of length one; row i belongs to image i.
    """
    scores = images @ sentences.T
    own = scores.diagonal()[:, None]
    return float(((scores < own - _EQUAL) + 0.5 * (abs(scores - own) <= _EQUAL)).mean())
