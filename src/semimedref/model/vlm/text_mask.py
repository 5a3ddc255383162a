"""Masks of sentences from a frozen vision-language model and a decoder that learns."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.model.vlm.contrast import LearnedTemperature, pooled_scores, symmetric
from semimedref.model.vlm.grounding import GroundingDecoder, of_own, similarity


class TextMask(nn.Module):
    """Where in an image its sentence is, from frozen patches and sentences.

    Args:
        space: D, of patches and sentences.
        temperature: of the contrast; learned.
        soft_share: of the flat one of two curves that make a mask of a similarity.
        steepness: of the other curve.
        center: similarity at which that one is one half.
        as_released: the mean over all sentences of the batch, through a second sigmoid.
    """

    def __init__(
        self,
        space: int,
        *,
        temperature: float,
        soft_share: float,
        steepness: float,
        center: float,
        as_released: bool,
    ) -> None:
        super().__init__()
        self.decoder = GroundingDecoder(space)
        self.temperature = LearnedTemperature(temperature)
        self.soft_share, self.steepness, self.center = soft_share, steepness, center
        self.as_released = as_released

    def forward(self, patches: Tensor, sentences: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """The masks (B, 1, side, side), and the contrast by which the decoder learns.

        Args:
            patches: (B, D, h, w), of length one.
            sentences: (B, D), of length one.
            side: of the masks, in pixels.
        """
        features = self.decoder(patches)
        cosine = similarity(features, sentences)  # (B, B, 4 h, 4 w)
        shown = pooled_scores(features, cosine.sigmoid(), sentences)
        maps = self.curve(cosine)
        mask = maps.mean(1, keepdim=True) if self.as_released else of_own(maps)
        mask = F.interpolate(mask, (side, side), mode="bilinear", align_corners=False)
        mask = mask.sigmoid() if self.as_released else mask
        return mask, symmetric(shown / self.temperature())

    def curve(self, cosine: Tensor) -> Tensor:
        """soft_share sigmoid(s) + (1 - soft_share) sigmoid(steepness (s - center))."""
        steep = (self.steepness * (cosine - self.center)).sigmoid()
        return self.soft_share * cosine.sigmoid() + (1 - self.soft_share) * steep
