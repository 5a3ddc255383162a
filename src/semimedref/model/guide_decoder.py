"""GuideDecoder: words guide every level of the decoder (LanGuideMedSeg, MICCAI 2023).

Zhong et al., "Ariadne's Thread: Using Text Prompts to Improve Segmentation of Infected Areas from
Chest X-ray Images". Re-implemented from its description. Adapted to the contract: the output is
logits, and a position token may follow the words.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from semimedref.model.blocks import Attention, SubPixelHead
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import dice
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import (
    PositionCode,
    TokenMixing,
    TwoConvUpBlock,
    check_multiple,
    check_sizes,
    to_map,
    to_tokens,
)

_FIRST_SCALE = 1.421  # of what the words say, before training


class GuideDecoder(Segmenter):
    """GuideDecoder on any four-level image encoder and any text encoder.

    Padding takes part, as published: word positions are mixed before anything is attended to.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: exactly `max_tokens` tokens of a sentence.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        kept_tokens: mixtures of word positions at strides 32, 16 and 8.
        self_heads: heads of the attention of a map to itself.
        cross_heads: heads of its attention to the words.
        loss: native (soft Dice) or shared (that of all networks).
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        kept_tokens: Sequence[int],
        self_heads: int,
        cross_heads: int,
        loss: str,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        heads = {"model.self_heads": self_heads, "model.cross_heads": cross_heads}
        check_sizes(image_encoder, heads=heads, kept=kept_tokens)
        check_choice("model.loss", loss, LOSSES)
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.loss = loss
        widths = image_encoder.widths[::-1]
        self.decoder = nn.ModuleList(
            GuidedUp(
                GuideLayer(
                    width,
                    TokenMixing(
                        tokens=text_encoder.max_tokens,
                        kept=kept,
                        text_width=text_encoder.width,
                        width=width,
                    ),
                    self_heads=self_heads,
                    cross_heads=cross_heads,
                ),
                TwoConvUpBlock(width, finer),
            )
            for width, finer, kept in zip(widths, widths[1:], kept_tokens, strict=False)
        )
        self.head = SubPixelHead(widths[-1])

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *skips, x = self.image_encoder(image)
        for block in self.decoder:
            x = block(x, skips.pop(), text.tokens)
        return self.head(x)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """Soft Dice, or the shared loss where asked for."""
        return (dice if self.loss == "native" else loss)(outputs.logits, target)

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the map (B, C4, H / 32, W / 32) after the first guide layer."""
        return self.decoder[0].guide(self.image_encoder(image)[-1], text.tokens)

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="GuideDecoder")


class GuidedUp(nn.Module):
    """One level of a decoder: words guide the map, then it is enlarged and joined by the skip."""

    def __init__(self, guide: nn.Module, up: TwoConvUpBlock) -> None:
        super().__init__()
        self.guide, self.up = guide, up

    def forward(self, x: Tensor, skip: Tensor, words: Tensor) -> Tensor:
        """Map x (B, C, h, w), skip (B, C', 2h, 2w) and words (B, L, D) to (B, C', 2h, 2w)."""
        return self.up(self.guide(x, words), skip)


class GuideLayer(nn.Module):
    """A map looks at itself, then at the words; norms before and after either attention."""

    def __init__(self, width: int, text: TokenMixing, *, self_heads: int, cross_heads: int) -> None:
        super().__init__()
        self.text = text
        self.self_attention = Attention(width, heads=self_heads, dropout=0.0)
        self.cross_attention = Attention(width, heads=cross_heads, dropout=0.0)
        self.before_self, self.after_self = nn.LayerNorm(width), nn.LayerNorm(width)
        self.before_cross, self.after_cross = nn.LayerNorm(width), nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.tensor(_FIRST_SCALE))
        self.visual_code, self.text_code = PositionCode(), PositionCode()

    def forward(self, visual: Tensor, words: Tensor) -> Tensor:
        """Update a map (B, C, h, w) by words (B, L, D), or by (B, L + 1, D) with a position."""
        x, t = to_tokens(visual), self.text(words)
        z = self.before_self(x)
        place = self.visual_code(z)
        x = x + self.after_self(self.self_attention(place, place, values=z))
        z = self.before_cross(x)
        told = self.cross_attention(self.visual_code(z), self.text_code(t), values=t)
        return to_map(x + self.scale * self.after_cross(told), visual)
