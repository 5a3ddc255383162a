"""What methods with unlabeled images share: one pass over both kinds, and a teacher, if any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Self

import torch
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.t_patchmix import Mixed
from semimedref.augment.views import View, Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.supervised import Supervised
from semimedref.method.teacher import Teacher
from semimedref.method.text_choice import choose, join
from semimedref.model.segmenter import Outputs, Segmenter, TextFeatures

LABELED = "labeled"  # the stage without unlabeled images


class SemiSupervised(Supervised):
    """Labeled images, and unlabeled ones with labels that a network makes.

    A subclass says in `step` what they are.
    """

    uses_unlabeled = True

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """What the host decides about the strong view."""
        del progress
        return self.views.plan(batch, self.student.prepare_text)

    def pass_over(
        self, known: View, text: TextFeatures, others: list[tuple[Tensor, TextFeatures]]
    ) -> list[Outputs]:
        """The student's outputs for labeled images and several others, in one pass."""
        image = torch.cat([known.image, *(image for image, _ in others)])
        rest = self.student.outputs(image, join([text, *(words for _, words in others)]))
        found = []
        for part in (known.image, *(image for image, _ in others[:-1])):
            one, rest = rest.split(len(part))
            found.append(one)
        return [*found, rest]

    def strong_text(self, batch: Batch, strong: Mixed) -> TextFeatures:
        """The student's reading of the sentences that are true for the strong view."""
        chosen = choose(batch.plan.texts, strong.choice, batch.plan.candidates)
        return self.student.encode_text(chosen, dropout=self.text_dropout)


class Taught(SemiSupervised):
    """With an EMA teacher: m = min(1 - 1 / (step + 1), momentum), as all who warm it up.

    Attributes:
        batch_statistics: whether the teacher's batch norm uses those of each batch, as in some
            releases, instead of what it has gathered.
    """

    batch_statistics = False

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        self.teacher = Teacher(model)
        self.highest_momentum = momentum

    def to(self, device: object) -> Self:
        """Move student and teacher."""
        self.teacher.network.to(device)
        return super().to(device)

    @torch.no_grad()
    def teach(self, image: Tensor, batch: Batch) -> Tensor:
        """The teacher's probability for images in [0, 1] and the complete sentences."""
        network = self.teacher.network
        with self.teacher.training() if self.batch_statistics else nullcontext():
            text = network.encode_text(batch.text)
            return network(network.normalized(image), text).float().sigmoid()

    def momentum(self, progress: Progress) -> float:
        """The teacher begins as the student and gets slower."""
        return min(1 - 1 / (progress.step + 1), self.highest_momentum)

    def after_step(self, progress: Progress) -> None:
        """The teacher follows the student."""
        self.teacher.follow(self.student, momentum=self.momentum(progress))

    def values(self, progress: Progress) -> dict[str, float]:
        """The teacher's momentum."""
        return super().values(progress) | {"momentum": self.momentum(progress)}

    def network(self, which: str) -> Segmenter:
        """Student or teacher."""
        if which not in ("student", "teacher"):
            raise UserError(f"weights={which} is unknown: expected student or teacher")
        return self.teacher.network if which == "teacher" else self.student

    def state_dict(self) -> dict[str, Any]:
        """Student and teacher."""
        return self.weights()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take both back."""
        self.load_weights(state)

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Both networks."""
        return super().weights() | {"teacher": self.teacher.network.trainable_state()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take both back."""
        super().load_weights(state)
        self.teacher.network.load_trainable_state(pick(state, "teacher"))


class Staged(Taught):
    """First labeled images alone; then all, with a teacher that begins as the best student.

    Args:
        stages: shares of the epochs, of ``labeled`` and ``all``.
        shared: what `Taught` takes.
    """

    def __init__(self, *, stages: Mapping[str, float], **shared: Any) -> None:  # noqa: ANN401
        super().__init__(**shared)
        self.stages = dict(stages)

    def enter(self, stage: str) -> None:
        """The teacher begins as the best student of labeled images."""
        del stage
        self.teacher.follow(self.student, momentum=0.0)

    def after_step(self, progress: Progress) -> None:
        """The teacher follows where it is asked."""
        if progress.stage != LABELED:
            super().after_step(progress)


def gaussian_ramp(progress: Progress, share: float) -> float:
    """exp(-5 (1 - t)^2), t from 0 to 1 over a share of the training (Laine and Aila, 2017)."""
    steps = share * progress.total_steps
    t = min(1.0, progress.step / steps) if steps > 0 else 1.0
    return math.exp(-5 * (1 - t) ** 2)
