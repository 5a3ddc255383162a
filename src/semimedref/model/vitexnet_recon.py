"""A reconstruction in the style of ViTexNet (MICCAI 2025): words choose convolutions.

This is not the published network, whose code and full text are not public. Known and kept:
Swin-Tiny of Hugging Face and CXR-BERT as encoders (the authors' page), text-guided dynamic
convolution (TGDC) at each decoder stage and no cross-attention (abstract), and what two independent
third parties agree on about TGDC: the mean of the words, a small MLP with softmax over K = 4
depth-wise 1-D convolutions over the image's tokens, LayerNorm times a learned scale, and a second
pass through the same filters.

Chosen here, where sources differ or say nothing: the decoder around TGDC is that of GuideDecoder
with its guide layers replaced (the authors' test script shares its data set and encoders); words
are projected before the MLP; convolutions have a bias; norm and scale (one for each channel) are
shared by both passes; the result is added to the tokens as it is; the loss is that of all networks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import SubPixelHead
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.segmenter import Segmenter, TextFeatures
from semimedref.model.text_mixing import TwoConvUpBlock, check_multiple, to_map, to_tokens

_REACH = 3  # tokens that a filter sees


class ViTexNetRecon(Segmenter):
    """A decoder whose maps are filtered as the words say, on any encoders.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: tokens in, (B, L, D) out.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        filters: K, convolutions among which the words choose.
        mask_padding: take the mean over real words alone, not over padding too.
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        filters: int,
        mask_padding: bool,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        if filters < 1:
            raise UserError(f"model.filters={filters}: expected at least one")
        if image_encoder.widths[0] % 4:
            raise UserError(
                f"the image encoder's first width {image_encoder.widths[0]} is no multiple of 4, "
                "which the sub-pixel head expects: choose other image_encoder.widths"
            )
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.mask_padding = mask_padding
        widths = image_encoder.widths[::-1]
        self.guides = nn.ModuleList(
            DynamicConvolution(width, text_encoder.width, filters=filters) for width in widths[:-1]
        )
        self.decoder = nn.ModuleList(map(TwoConvUpBlock, widths, widths[1:]))
        self.head = SubPixelHead(widths[-1])

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *skips, x = self.image_encoder(image)
        mask = self._mask(text)
        for guide, up in zip(self.guides, self.decoder, strict=True):
            x = up(guide(x, text.tokens, mask), skips.pop())
        return self.head(x)

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the map (B, C4, H / 32, W / 32) after the first convolution that words chose."""
        return self.guides[0](self.image_encoder(image)[-1], text.tokens, self._mask(text))

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="ViTexNet (reconstruction)")

    def _mask(self, text: TextFeatures) -> Tensor | None:
        return text.mask if self.mask_padding else None


class DynamicConvolution(nn.Module):
    """TGDC: depth-wise 1-D convolutions over a map's tokens, mixed by weights that words give.

    All K convolutions see the same tokens, so their mixture is one convolution with mixed kernels:
    the same function at 1 / K of the cost.
    """

    def __init__(self, width: int, text_width: int, *, filters: int) -> None:
        super().__init__()
        self.text_in = nn.Linear(text_width, width)
        self.choice = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, filters), nn.Softmax(dim=1)
        )
        self.filters = nn.ModuleList(
            nn.Conv1d(width, width, _REACH, padding=_REACH // 2, groups=width)
            for _ in range(filters)
        )
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, visual: Tensor, words: Tensor, mask: Tensor | None) -> Tensor:
        """Filter a map (B, C, h, w), read in raster order, as words (B, L, D) say.

        Args:
            visual: (B, C, h, w).
            words: (B, L, D).
            mask: (B, L), True = real token, or None to let padding take part.
        """
        weights = self.choice(_mean(self.text_in(words), mask))  # (B, K)
        kernel, bias = self._mixed(weights)
        x = tokens = to_tokens(visual)
        for _ in range(2):
            x = self.norm(_filtered(x, kernel, bias)) * self.scale
        return to_map(tokens + x, visual)

    def _mixed(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Kernels (B, C, 3) and biases (B, C) of weights (B, K)."""
        kernels = torch.stack([f.weight[:, 0] for f in self.filters])  # (K, C, 3)
        biases = torch.stack([f.bias for f in self.filters])  # (K, C)
        return torch.einsum("bk,kcr->bcr", weights, kernels), weights @ biases


def _filtered(tokens: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Each image's tokens (B, N, C) by its own kernels (B, C, 3) and biases (B, C)."""
    n, margin = tokens.shape[1], _REACH // 2
    padded = F.pad(tokens, (0, 0, margin, margin))
    taps = enumerate(kernel.unbind(2))
    return bias[:, None] + sum(padded[:, i : i + n] * tap[:, None] for i, tap in taps)


def _mean(tokens: Tensor, mask: Tensor | None) -> Tensor:
    """The mean (B, C) of tokens (B, L, C) where the mask is True."""
    if mask is None:
        return tokens.mean(1)
    real = mask[..., None].to(tokens.dtype)
    return (tokens * real).sum(1) / real.sum(1).clamp(min=1)
