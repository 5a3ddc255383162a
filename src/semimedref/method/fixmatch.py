"""``method=fixmatch``: confident labels of weak views teach strong ones (Sohn et al., 2020)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.views import Views
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import SemiSupervised
from semimedref.method.supervised import mask_of
from semimedref.model.segmenter import Segmenter


class FixMatch(SemiSupervised):
    """L = L_sup + w mean 1[max(p, 1 - p) >= tau] CE(strong, 1[p > 0.5]), p of the weak view.

    There is no teacher: the student itself labels the weak view; no gradient flows through labels.

    Args:
        model: any segmentation network.
        views: the weak and the strong view.
        loss: of labeled images.
        text_dropout: of the student's text encoder.
        threshold: tau.
        weight_unlabeled: w, from the first step on.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        threshold: float,
        weight_unlabeled: float,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        check_confidence(threshold)
        self.threshold, self.weight_unlabeled = threshold, weight_unlabeled

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled and weak images in one pass, whose labels may be mixed; then the strong ones."""
        if unlabeled is None:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        calm = (self.views.normalize(weak.image), self.student_text(unlabeled))
        first, second = self.pass_over(known, self.student_text(labeled), [calm])
        probability = second.logits.detach().float().sigmoid()
        strong = self.views.strong(weak, unlabeled, probability)
        outputs = self.student.outputs(
            self.views.normalized(strong.image), self.strong_text(unlabeled, strong)
        )
        sure = confident(strong.probability, self.threshold)
        loss_sup = self.objective(first, mask_of(known))
        loss_unsup = masked_cross_entropy(outputs.logits, strong.probability, sure)
        total = loss_sup + self.weight_unlabeled * loss_unsup
        return {"loss": total, "loss_sup": loss_sup, "loss_unsup": loss_unsup, "sure": sure.mean()}


def check_confidence(threshold: float) -> None:
    """Refuse a confidence that every pixel has, or none."""
    if not 0.5 <= threshold < 1:
        raise UserError(
            f"method.threshold={threshold}: expected a confidence from 0.5 to below 1; set "
            "method.threshold=0.95"
        )


def confident(probability: Tensor, threshold: float) -> Tensor:
    """1[max(p, 1 - p) >= threshold]."""
    return (probability.maximum(1 - probability) >= threshold).to(probability.dtype)


def masked_cross_entropy(logits: Tensor, probability: Tensor, sure: Tensor) -> Tensor:
    """Mean over all pixels of the cross-entropy with 1[p > 0.5]; zero where nobody is sure."""
    target = (probability > 0.5).float()
    each = F.binary_cross_entropy_with_logits(logits.float(), target, reduction="none")
    return (sure * each).mean()
