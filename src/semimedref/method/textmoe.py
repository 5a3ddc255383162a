"""``method=textmoe``: exchanged frequencies, one loss for masks and pseudo-masks (MICCAI 2025).

Its network, two experts in every convolution and the loss that keeps them apart, is
``model=textmoe_seg``; the training takes any other as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from semimedref.augment.frequency_exchange import KINDS, frequency_exchange
from semimedref.augment.views import Views
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import LABELED, Staged
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import join
from semimedref.model.segmenter import Segmenter, check_choice

_PUBLISHED_SIDE = 224


class TextMoE(Staged):
    """First labeled images alone; then all, with the teacher's masks and exchanged frequencies.

    Every image of a batch, labeled or not, gets frequencies of another one. The teacher sees it as
    it was. Its mask is cut at one half: no confidence, no ramp, and one mean over all images.

    Args:
        model: published: TextMoE-Seg.
        views: the weak view alone.
        loss: of networks that have none of their own.
        text_dropout: of the student's text encoder.
        momentum: of the teacher at its slowest.
        stages: shares of the epochs, of ``labeled`` and ``all``.
        exchange: amplitude, shifted or unshifted.
        cutoff: of the exchanged frequencies, at 224 pixels; smaller images have fewer.
        as_released: ``unshifted``, and a teacher with the statistics of its batch.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        stages: Mapping[str, float],
        exchange: str,
        cutoff: float,
        as_released: bool,
    ) -> None:
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum,
            stages=stages,
        )
        check_choice("method.exchange", exchange, KINDS)
        self.exchange = "unshifted" if as_released else exchange
        self.cutoff, self.batch_statistics = cutoff, as_released
        self.draws += 1  # the last number of a sample decides who gives to whom

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Nothing is mixed."""

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone, or both kinds in one pass and one mean."""
        if unlabeled is None or progress.stage == LABELED:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        pseudo = (self.teach(weak.image, unlabeled) > 0.5).float()
        image = torch.cat([known.image, self.views.normalize(weak.image)])
        texts = join([self.student_text(labeled), self.student_text(unlabeled)])
        u = torch.cat([labeled.uniform, unlabeled.uniform])[:, -1]
        outputs = self.student.outputs(self.exchanged(image, u.argsort()), texts)
        loss = self.objective(outputs, torch.cat([mask_of(known), pseudo]))
        return {"loss": loss, "pseudo_lesion": pseudo.mean()}

    def exchanged(self, image: Tensor, donor: Tensor) -> Tensor:
        """Normalized images, each with frequencies of its donor (B,)."""
        cutoff = self.cutoff * image.shape[-1] / _PUBLISHED_SIDE
        return frequency_exchange(
            image, image.index_select(0, donor), cutoff=cutoff, kind=self.exchange
        )
