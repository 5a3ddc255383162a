"""``method=dusss``: the sentence's mask and the teacher's teach each other (AAAI 2025)."""

from __future__ import annotations

import torch
from torch import Tensor

from semimedref.augment.views import Views
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.vlm_taught import VLMTaught
from semimedref.model.losses import balanced_dice_bce, rounded_dice_bce
from semimedref.model.segmenter import Segmenter
from semimedref.model.vlm.text_mask import TextMask
from semimedref.model.vlm.vlm import VLM

_NEARLY = 1e-6  # a probability of exactly 0 or 1 has no logit


class DuSSS(VLMTaught):
    """L = (L_seg(student, [mask; pseudo]) + L_seg(text mask, teacher)) / 2 + w L_grounding.

    Args:
        model: published: a plain U-Net; any network.
        views: the weak view alone.
        loss: of networks that have none of their own.
        text_dropout: of the student's text encoder, if it has one.
        momentum: of the teacher at its slowest.
        vlm: the frozen model; its weights come from the run ``vlm`` that the configuration needs.
        text_mask: makes the masks of sentences.
        weight_grounding: of the contrast by which masks of sentences are learned.
        weight_text: share of the text mask's own loss.
        as_released: as `VLMTaught` has it.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        vlm: VLM,
        text_mask: TextMask,
        weight_grounding: float,
        weight_text: float,
        as_released: bool,
    ) -> None:
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum,
            vlm=vlm,
            text_mask=text_mask,
            weight_grounding=weight_grounding,
            as_released=as_released,
        )
        self.weight_text = weight_text

    def combine(
        self, loss_seg: Tensor, mask: Tensor, taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The student's loss, and that of the sentence's mask against the teacher."""
        term = rounded_dice_bce if self.as_released else balanced_dice_bce
        loss_text = term(torch.logit(mask, _NEARLY), taught)
        total = (1 - self.weight_text) * loss_seg + self.weight_text * loss_text
        return total, {"loss_text": loss_text}
