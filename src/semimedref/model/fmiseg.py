"""FMISeg: low and high frequencies of an image in two branches, both guided by words (MICCAI 2025).

Yu et al., "Frequency-domain Multi-modal Fusion for Language-guided Medical Image Segmentation",
arXiv 2509.19719. Re-implemented from its description. Adapted to the contract: the output is
logits, a position token may follow the words, and the network splits an image itself, at the side
that it is given; the published script splits files at their own size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, SubPixelHead, feed_forward
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.frequency import low_and_high
from semimedref.model.guide_decoder import GuidedUp
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


class FMISeg(Segmenter):
    """FMISeg on any two four-level image encoders and any text encoder.

    The low branch predicts; the high branch lends it its deepest map and has a loss of its own.
    Padding takes part, as published: word positions are mixed before anything is attended to.

    Args:
        image_encoder: the trunk of low frequencies.
        image_encoder_2: the trunk of high frequencies, with the same widths.
        text_encoder: exactly `max_tokens` tokens of a sentence.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        kept_tokens: mixtures of word positions at strides 32, 16 and 8.
        self_heads: heads of the attention of a map to itself.
        cross_heads: heads of attention to the words, of the words, and to the other branch.
        quantize: keep 8 bits of the low and the high image, as their files do.
        loss: native (soft Dice of both branches) or shared (that of all networks, of both).
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        image_encoder_2: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        kept_tokens: Sequence[int],
        self_heads: int,
        cross_heads: int,
        quantize: bool,
        loss: str,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        heads = {"model.self_heads": self_heads, "model.cross_heads": cross_heads}
        check_sizes(image_encoder, heads=heads, kept=kept_tokens)
        check_choice("model.loss", loss, LOSSES)
        if image_encoder_2.widths != image_encoder.widths:
            raise UserError(
                f"model.image_encoder_2 has the widths {list(image_encoder_2.widths)}: expected "
                f"those of model.image_encoder, {list(image_encoder.widths)}. Set both to the same "
                "option"
            )
        self.image_encoder, self.image_encoder_2 = image_encoder, image_encoder_2
        self.text_encoder = text_encoder
        self.quantize, self.loss = quantize, loss
        self.exchange = FFBI(image_encoder.widths[-1], heads=cross_heads)
        sizes = {"kept_tokens": kept_tokens, "self_heads": self_heads, "cross_heads": cross_heads}
        self.low, self.high = (
            GuidedBranch(image_encoder.widths, text_encoder, **sizes) for _ in range(2)
        )

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map z-scored images (B, 1, H, W) and text to logits (B, 1, H, W) of the low branch."""
        low, high = self._maps(*self._split(image))
        low[-1] = self.exchange.to_low(low[-1], high[-1])
        return self.low(low, text.tokens)

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """The logits of both branches; those of the high one only take part in the loss."""
        low, high = self.branches(*self._split(image), text)
        return Outputs(low, {"high": high})

    def branches(self, low: Tensor, high: Tensor, text: TextFeatures) -> tuple[Tensor, Tensor]:
        """Map z-scored low and high images (B, 1, H, W) to the logits of either branch."""
        low_maps, high_maps = self._maps(low, high)
        low_maps[-1], high_maps[-1] = self.exchange(low_maps[-1], high_maps[-1])
        return self.low(low_maps, text.tokens), self.high(high_maps, text.tokens)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The loss of the low branch plus that of the high branch."""
        chosen = dice if self.loss == "native" else loss
        return chosen(outputs.logits, target) + chosen(outputs.extra["high"], target)

    def image_features(self, image: Tensor) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) of the low trunk."""
        low, _ = self._split(image)
        with self.image_encoder.unremembered():
            return self.image_encoder(low)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the low branch's map (B, C4, H / 32, W / 32) after its first words."""
        low, high = self._maps(*self._split(image))
        return self.low.decoder[0].guide(self.exchange.to_low(low[-1], high[-1]), text.tokens)

    def encoder_parts(self) -> list[nn.Module]:
        """Both trunks."""
        return [self.image_encoder, self.image_encoder_2]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="FMISeg")

    def _split(self, image: Tensor) -> tuple[Tensor, Tensor]:
        return low_and_high(image, quantize=self.quantize)

    def _maps(self, low: Tensor, high: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        for side in low.shape[-2:]:
            self.check_side(side)
        return self.image_encoder(low), self.image_encoder_2(high)


class FFBI(nn.Module):
    """The deepest maps of both branches look at each other, as they were before."""

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.low_attention = Attention(width, heads=heads, dropout=0.0)
        self.high_attention = Attention(width, heads=heads, dropout=0.0)

    def forward(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Update the low and the high map (B, C, h, w)."""
        return self.to_low(low, high), self._look(high, low, self.high_attention)

    def to_low(self, low: Tensor, high: Tensor) -> Tensor:
        """Update the low map alone, which is all that a prediction needs."""
        return self._look(low, high, self.low_attention)

    def _look(self, own: Tensor, other: Tensor, attention: Attention) -> Tensor:
        return own + to_map(attention(to_tokens(own), to_tokens(other)), own)


class GuidedBranch(nn.Module):
    """The decoder of one branch: at strides 32, 16 and 8 words gate a map, which then grows."""

    def __init__(
        self,
        widths: Sequence[int],
        text_encoder: TextEncoder,
        *,
        kept_tokens: Sequence[int],
        self_heads: int,
        cross_heads: int,
    ) -> None:
        super().__init__()
        *finer, _ = widths
        levels = zip(reversed(widths), reversed(finer), kept_tokens, strict=False)
        self.decoder = nn.ModuleList()
        for width, after, kept in levels:
            text = TokenMixing(
                tokens=text_encoder.max_tokens,
                kept=kept,
                text_width=text_encoder.width,
                width=width,
            )
            gate = LFFI(width, text, self_heads=self_heads, cross_heads=cross_heads)
            self.decoder.append(GuidedUp(gate, TwoConvUpBlock(width, after)))
        self.head = SubPixelHead(widths[0])

    def forward(self, maps: list[Tensor], words: Tensor) -> Tensor:
        """Map the trunk's maps (finest first) and words (B, L, D) to logits (B, 1, H, W)."""
        *skips, x = maps
        for block in self.decoder:
            x = block(x, skips.pop(), words)
        return self.head(x)


class LFFI(nn.Module):
    """Map and words read each other; what they agree on multiplies the map.

    The product has no residual beside it: where the gate is zero, the map is gone.
    """

    def __init__(self, width: int, text: TokenMixing, *, self_heads: int, cross_heads: int) -> None:
        super().__init__()
        self.text = text
        self.self_attention = Attention(width, heads=self_heads, dropout=0.0)
        self.before_self, self.after_self = nn.LayerNorm(width), nn.LayerNorm(width)
        self.before_cross = nn.LayerNorm(width)
        self.visual_attention = Attention(width, heads=cross_heads, dropout=0.0)
        self.word_attention = Attention(width, heads=cross_heads, dropout=0.0)
        self.visual_norm1, self.visual_norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.word_norm1, self.word_norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.visual_ffn = feed_forward(width, 2 * width, dropout=0.0)
        self.word_ffn = feed_forward(width, 2 * width, dropout=0.0)
        self.agreement = nn.Linear(text.kept, width)
        self.gate_norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.self_code, self.visual_code = PositionCode(), PositionCode()
        self.text_code = PositionCode()

    def forward(self, visual: Tensor, words: Tensor) -> Tensor:
        """Gate a map (B, C, h, w) by words (B, L, D), or by (B, L + 1, D) with a position."""
        x, t = to_tokens(visual), self.text(words)
        z = self.before_self(x)
        place = self.self_code(z)
        x = x + self.after_self(self.self_attention(place, place, values=z))
        z = self.before_cross(x)
        seen, told = self.visual_code(z), self.text_code(t)
        # A position token is read by the map, but `agreement` has no column for it; as words do not
        # look at each other, what it would read of the map changes nothing and is left out.
        kept = self.text.kept
        a = self.visual_norm1(self.visual_attention(seen, told, values=t) + z)
        b = self.word_norm1(self.word_attention(told[:, :kept], seen, values=z) + t[:, :kept])
        a = self.visual_norm2(self.visual_ffn(a) + a)
        b = self.word_norm2(self.word_ffn(b) + b)
        gate = self.gate_norm(a + self.agreement(a @ b.mT))
        return to_map(x * self.scale * gate, visual)
