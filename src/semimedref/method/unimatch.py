"""``method=unimatch``: two strong views and a pass with dropped features (Yang et al., CVPR 2023).

The medical form: unlabeled terms are Dice over the pixels of which the weak view is sure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.t_patchmix import Mixed
from semimedref.augment.views import View, Views
from semimedref.dataset.sample import Batch
from semimedref.method.fixmatch import check_confidence, confident
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import SemiSupervised
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import join
from semimedref.model.segmenter import Segmenter, TextFeatures

_SMOOTH = 1e-5


@dataclass(frozen=True)
class TwoPlans:
    """What the host decides about two strong views of one batch."""

    first: Plan
    second: Plan

    def to(self, device: object) -> TwoPlans:
        """On a device; copies do not block."""
        return TwoPlans(self.first.to(device), self.second.to(device))


class UniMatch(SemiSupervised):
    """L = (L_x + 0.25 L_s1 + 0.25 L_s2 + 0.5 L_fp) / 2 with L_x half of Dice + CE.

    The student's own weak prediction is the label, cut at one half, where its confidence
    max(p, 1 - p) reaches tau. There is neither a teacher nor a ramp. Partners of the boxes are
    images of the same batch; published: of a second loader, labeled in evaluation mode.

    Args:
        model: any segmentation network that names its encoder's parts.
        views: one geometry; jitter, blur and boxes of the two strong views are their own.
        loss: of labeled images.
        text_dropout: of the student's text encoder.
        threshold: tau.
        feature_dropout: probability of a channel of the image encoder to be dropped in L_fp.
        weight_strong: of each strong view.
        weight_dropped: of L_fp.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        threshold: float,
        feature_dropout: float,
        weight_strong: float,
        weight_dropped: float,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        check_confidence(threshold)
        self.threshold, self.feature_dropout = threshold, feature_dropout
        self.weight_strong, self.weight_dropped = weight_strong, weight_dropped
        self.draws = 2 * views.draws

    def plan(self, batch: Batch, progress: Progress) -> TwoPlans:
        """Each strong view has numbers of its own."""
        del progress
        one, two = (self.views.plan(b, self.student.prepare_text) for b in self._twice(batch))
        return TwoPlans(one, two)

    def rehearsal(self, plan: Plan, side: int) -> TwoPlans:
        """Twice the same plan."""
        del side
        return TwoPlans(plan, plan)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Weak and labeled images; the weak ones with dropped features; both strong views."""
        if unlabeled is None:
            return super().step(labeled, None, progress)
        known, text = self.views.labeled(labeled), self.student_text(labeled)
        weak = self.views.weak(unlabeled)
        calm = self.views.normalize(weak.image)
        words = self.student_text(unlabeled)
        first, second = self.pass_over(known, text, [(calm, words)])
        probability = second.logits.detach().float().sigmoid()
        with self.student.dropped_features(self.feature_dropout):
            dropped = self.student(calm, words)
        strong, read = self._strong_views(weak, unlabeled, probability)
        image = torch.cat([self.views.normalized(s.image) for s in strong])
        logits = self.student(image, join(read)).chunk(2)
        loss_sup = self.objective(first, mask_of(known))
        s1, s2 = (self._unlabeled(x, s.probability) for x, s in zip(logits, strong, strict=True))
        loss_fp = self._unlabeled(dropped, probability)
        unlabeled_terms = self.weight_strong * (s1 + s2) + self.weight_dropped * loss_fp
        total = (loss_sup / 2 + unlabeled_terms) / 2
        sure = confident(probability, self.threshold).mean()
        return {
            "loss": total,
            "loss_sup": loss_sup,
            "loss_unsup": (s1 + s2) / 2,
            "loss_fp": loss_fp,
            "sure": sure,
        }

    def _twice(self, batch: Batch) -> tuple[Batch, Batch]:
        """The batch with the numbers, and on the device the plans, of each strong view."""
        n = self.views.draws
        plans = (None, None) if batch.plan is None else (batch.plan.first, batch.plan.second)
        one = replace(batch, uniform=batch.uniform[:, :n], plan=plans[0])
        return one, replace(batch, uniform=batch.uniform[:, n:], plan=plans[1])

    def _strong_views(
        self, weak: View, batch: Batch, probability: Tensor
    ) -> tuple[list[Mixed], list[TextFeatures]]:
        views, texts = [], []
        for one in self._twice(batch):
            views.append(self.views.strong(weak, one, probability))
            texts.append(self.strong_text(one, views[-1]))
        return views, texts

    def _unlabeled(self, logits: Tensor, probability: Tensor) -> Tensor:
        return sure_dice(logits, probability, confident(probability, self.threshold))


def sure_dice(logits: Tensor, probability: Tensor, sure: Tensor) -> Tensor:
    """Dice loss of lesion and background with 1[p > 0.5], over the sure pixels of a whole batch.

    Squares in the denominator; the mean of both classes, as published.
    """
    p, target = logits.float().sigmoid(), (probability > 0.5).float()

    def one(x: Tensor, g: Tensor) -> Tensor:
        overlap = (sure * x * g).sum()
        sizes = (sure * x.square()).sum() + (sure * g.square()).sum()
        return 1 - (2 * overlap + _SMOOTH) / (sizes + _SMOOTH)

    return (one(p, target) + one(1 - p, 1 - target)) / 2
