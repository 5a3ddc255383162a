"""``method=teacher_student``: the teacher labels weak views, the student learns strong ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from semimedref.augment.image import standardize
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress, Schedule
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.supervised import Supervised, _mask
from semimedref.method.teacher import Teacher
from semimedref.model.segmenter import Segmenter, TextFeatures


class TeacherStudent(Supervised):
    """L = L_sup + lambda_u(t) L_unsup (paper, Eqs. sup, pseudo-labeling, unsup and total)."""

    uses_unlabeled = True

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        pseudo_label: object,
        loss: SegmentationLoss,
        schedule: Schedule,
        weight_unlabeled: float,
        momentum_start: float,
        momentum_end: float,
        text_dropout: bool,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        self.teacher = Teacher(model)
        self.pseudo_label, self.schedule = pseudo_label, schedule
        self.weight_unlabeled = weight_unlabeled
        self.momentum_start, self.momentum_end = momentum_start, momentum_end

    def to(self, device: object) -> Self:
        """Move student and teacher."""
        self.teacher.network.to(device)
        return super().to(device)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone in burn-in, then both branches in one student pass."""
        if unlabeled is None or self.schedule.in_burn_in(progress):
            return super().step(labeled, None, progress)
        weak = self.views.weak(unlabeled)
        target = self.pseudo_label(self.teach(weak.image, unlabeled))
        strong = self.views.strong(weak, unlabeled)
        known = self.views.weak(labeled)
        image = torch.cat([known.image, strong.image])
        text = _join(self.student_text(labeled), self.student_text(unlabeled))
        logits = self.student(standardize(image), text)
        loss_sup = self.loss(logits[: len(labeled)], _mask(known))
        loss_unsup = self.loss(logits[len(labeled) :], target)
        loss = loss_sup + self.lambda_u(progress) * loss_unsup
        return {"loss": loss, "loss_sup": loss_sup, "loss_unsup": loss_unsup}

    @torch.no_grad()
    def teach(self, image: Tensor, batch: Batch) -> Tensor:
        """The teacher's probability P for a weak view and the complete sentence."""
        network = self.teacher.network
        return network(standardize(image), network.encode_text(batch.text)).float().sigmoid()

    def after_step(self, progress: Progress) -> None:
        """The teacher follows the student."""
        self.teacher.follow(self.student, momentum=self.momentum(progress))

    def lambda_u(self, progress: Progress) -> float:
        """Weight of the unlabeled branch: 0 in burn-in, then linear per step."""
        return self.weight_unlabeled * self.schedule.unlabeled_share(progress)

    def momentum(self, progress: Progress) -> float:
        """EMA momentum m: its start value in burn-in, then linear to its end value."""
        rise = self.momentum_end - self.momentum_start
        return self.momentum_start + rise * self.schedule.momentum_share(progress)

    def values(self, progress: Progress) -> dict[str, float]:
        """lambda_u and m."""
        return {"lambda_u": self.lambda_u(progress), "momentum": self.momentum(progress)}

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


def _join(a: TextFeatures, b: TextFeatures) -> TextFeatures:
    return TextFeatures(
        tokens=torch.cat([a.tokens, b.tokens]),
        mask=torch.cat([a.mask, b.mask]),
        pooled=torch.cat([a.pooled, b.pooled]),
    )
