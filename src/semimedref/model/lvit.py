"""LViT: a U-Net and a transformer beside it, into whose first tokens the words are added.

Li et al., "LViT: Language meets Vision Transformer in Medical Image Segmentation", IEEE TMI 2024.
Re-implemented from its description. Adapted to the contract: the output is logits; any width, any
number of words and any side that is a multiple of 16; a quarter of the released parameters, which
nothing reads, is not built.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import balanced_dice_bce
from semimedref.model.lvit_parts import (
    AxisConv,
    Block,
    ConvNorm,
    PatchEmbedding,
    PixelUpBlock,
    Reconstruct,
    to_map,
    two_convs,
)
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice

_STRIDE = 16  # of a token, and of the deepest map
_SMALLEST = 2 * _STRIDE  # one pixel in the deepest map has no batch statistics of its own
_LEVELS = 4
_CHANNELS = 3


class LViT(Segmenter):
    """LViT with any text encoder; the image branch is its own.

    Words are the channels of a convolution, so their number is fixed, padding takes part and no
    token of ISPG can follow them. Tokens have learned positions, so the side is fixed, too.

    Args:
        text_encoder: exactly `max_tokens` tokens of a sentence.
        image_side: pixels a side, a multiple of 16.
        width: channels at full resolution; deeper maps have 2, 4, 8 and 8 times as many.
        heads: attention heads of every block.
        dropout: rate after patches and inside the MLPs.
        loss: native (balanced Dice and cross-entropy) or shared (that of all networks).
    """

    normalization = "unit"
    takes_position_token = False

    def __init__(
        self,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        width: int,
        heads: int,
        dropout: float,
        loss: str,
    ) -> None:
        super().__init__()
        _check_multiple(image_side)
        _check_heads(width, heads)
        check_choice("model.loss", loss, LOSSES)
        self.text_encoder = text_encoder
        self.image_side, self.loss = image_side, loss
        widths = [width << level for level in range(_LEVELS)]
        side = image_side // _STRIDE
        strides = [_STRIDE >> level for level in range(_LEVELS)]  # of a token in a level's pixels

        self.stem = ConvNorm(_CHANNELS, width)
        self.down = nn.ModuleList(two_convs(a, b) for a, b in pairwise([*widths, widths[-1]]))
        chain = pairwise([text_encoder.width, *widths[::-1]])
        self.text = nn.Sequential(*(nn.Conv1d(a, b, 3, padding=1) for a, b in chain))
        self.text_tokens = AxisConv(text_encoder.max_tokens, side**2)
        self.embeddings = nn.ModuleList(
            PatchEmbedding(w, patch=patch, tokens=side**2, dropout=dropout)
            for w, patch in zip(widths, strides, strict=True)
        )
        blocks = {"heads": heads, "dropout": dropout}
        self.down_blocks = nn.ModuleList(Block(w, **blocks) for w in widths)
        self.down_convs = nn.ModuleList(AxisConv(w, w // 2) for w in widths[1:])
        self.up_blocks = nn.ModuleList(Block(w, **blocks) for w in widths)
        self.up_convs = nn.ModuleList(AxisConv(2 * w, w) for w in widths[:-1])
        self.reconstruct = nn.ModuleList(
            Reconstruct(w, side=side, scale=scale) for w, scale in zip(widths, strides, strict=True)
        )
        self.decoder = nn.ModuleList(PixelUpBlock(w, max(w // 2, width)) for w in widths[::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) or (B, 3, H, W) and text to logits (B, 1, H, W)."""
        *maps, x = self._maps(image)
        tokens = self._up(self._down(maps, text))
        skips = [r(y) + m for r, y, m in zip(self.reconstruct, tokens, maps, strict=True)]
        for block in self.decoder:
            x = block(x, skips.pop())
        return self.head(x)

    def _maps(self, image: Tensor) -> list[Tensor]:
        """Maps (B, C, h, w) of strides 1, 2, 4, 8 and 16; no word is in them."""
        for side in image.shape[-2:]:
            self.check_side(side)
        maps = [self.stem(image.expand(-1, _CHANNELS, -1, -1))]
        for convs in self.down:
            maps.append(convs(nn.functional.max_pool2d(maps[-1], 2)))
        return maps

    def _down(self, maps: list[Tensor], text: TextFeatures) -> list[Tensor]:
        """Tokens (B, n, C) of each level; the words of the first reach all others."""
        tokens: list[Tensor] = []
        for level, (embed, block) in enumerate(zip(self.embeddings, self.down_blocks, strict=True)):
            x = embed(maps[level])
            if not tokens:
                tokens.append(block(x + self._words(text.tokens)))
                continue
            x = self.down_convs[level - 1].along(block(x))
            tokens.append(torch.cat([x, tokens[-1]], dim=2))
        return tokens

    def _words(self, words: Tensor) -> Tensor:
        """Words (B, L, D) as one token for each patch (B, n, C)."""
        expected = self.text_encoder.max_tokens
        if words.shape[1] != expected:
            raise UserError(
                f"a text of {words.shape[1]} tokens: this LViT reads exactly {expected}. Set "
                f"text_encoder.max_tokens={words.shape[1]} for a network that is built anew"
            )
        return self.text_tokens(self.text(words.mT).mT)

    def _up(self, tokens: list[Tensor]) -> list[Tensor]:
        """Every level's tokens (B, n, C) with those of all deeper levels."""
        *others, x = (block(y) for block, y in zip(self.up_blocks, tokens, strict=True))
        found = [x]
        for y, conv in zip(others[::-1], reversed(self.up_convs), strict=True):
            found.insert(0, y + conv.along(found[0]))
        return found

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """Half Dice, half balanced cross-entropy; or the shared loss where asked for."""
        return (balanced_dice_bce if self.loss == "native" else loss)(outputs.logits, target)

    def feature_width(self, kind: str) -> int:
        """Both maps are as wide as the deepest level."""
        del kind
        return self.down_blocks[-1].norm1.normalized_shape[0]

    def image_features(self, image: Tensor) -> Tensor:
        """Return the deepest map (B, 8 * width, H / 16, W / 16), which words never reach.

        Running statistics may see such a pass: its activations are those of any other pass.
        """
        return self._maps(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the deepest tokens, words inside, as a map (B, 8 * width, H / 16, W / 16)."""
        *maps, _ = self._maps(image)
        deepest = self.up_blocks[-1](self._down(maps, text)[-1])
        return to_map(deepest, self.image_side // _STRIDE)

    def encoder_parts(self) -> list[nn.Module]:
        """The convolutions of the U-Net's encoder."""
        return [self.stem, *self.down]

    def check_side(self, side: int) -> None:
        """Accept the side that the network is built for: positions of its tokens are learned."""
        if side != self.image_side:
            raise UserError(
                f"this LViT cannot take images of {side} px: it has learned positions for "
                f"{self.image_side} px. Set scale.image_side={self.image_side}"
            )


def _check_multiple(side: int) -> None:
    if side >= _SMALLEST and side % _STRIDE == 0:
        return
    below = side // _STRIDE * _STRIDE
    nearest = [str(s) for s in (below, below + _STRIDE) if s >= _SMALLEST] or [str(_SMALLEST)]
    raise UserError(
        f"LViT cannot take images of {side} px: expected a multiple of {_STRIDE} from {_SMALLEST} "
        f"on. Set scale.image_side={' or scale.image_side='.join(nearest)}"
    )


def _check_heads(width: int, heads: int) -> None:
    if heads < 1 or width < heads or width % heads:
        raise UserError(
            f"model.width={width}: {heads} attention heads do not divide it. Set model.width to a "
            "multiple of model.heads"
        )
