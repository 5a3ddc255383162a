"""``method=mean_teacher``: the student agrees with its own average (Tarvainen, Valpola, 2017)."""

from __future__ import annotations

from torch import Tensor

from semimedref.augment.views import Views
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import Taught, gaussian_ramp
from semimedref.method.supervised import mask_of
from semimedref.model.segmenter import Segmenter


class MeanTeacher(Taught):
    """L = L_sup + w(t) mean (p_student(strong) - p_teacher(weak))^2, over all pixels.

    Args:
        model: any segmentation network.
        views: weak for the teacher, jittered and blurred for the student; nothing is mixed.
        loss: of labeled images.
        text_dropout: of the student's text encoder.
        momentum: of the teacher at its slowest.
        weight_unlabeled: w at its end.
        ramp: share of the training over which w rises, as a Gaussian.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        weight_unlabeled: float,
        ramp: float,
    ) -> None:
        super().__init__(
            model=model, views=views, loss=loss, text_dropout=text_dropout, momentum=momentum
        )
        self.weight_unlabeled, self.ramp = weight_unlabeled, ramp

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Both kinds of images in one pass of the student."""
        if unlabeled is None:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        strong = self.views.strong(weak, unlabeled, self.teach(weak.image, unlabeled))
        others = [(self.views.normalized(strong.image), self.strong_text(unlabeled, strong))]
        first, second = self.pass_over(known, self.student_text(labeled), others)
        loss_sup = self.objective(first, mask_of(known))
        loss_unsup = squared_difference(second.logits, strong.probability)
        total = loss_sup + self.weight(progress) * loss_unsup
        return {"loss": total, "loss_sup": loss_sup, "loss_unsup": loss_unsup}

    def weight(self, progress: Progress) -> float:
        """w(t)."""
        return self.weight_unlabeled * gaussian_ramp(progress, self.ramp)

    def values(self, progress: Progress) -> dict[str, float]:
        """W and m."""
        return super().values(progress) | {"lambda_u": self.weight(progress)}


def squared_difference(logits: Tensor, probability: Tensor) -> Tensor:
    """Mean over pixels of the squared difference of two foreground probabilities."""
    return (logits.float().sigmoid() - probability).square().mean()
