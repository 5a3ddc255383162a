"""Parts of RAR's network, which TeViD's reconstruction shares: words enter once, one decoder."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, SubPixelHead
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.text_mixing import TokenMixing, coded, to_map, to_tokens

_FIRST_SCALE = 1.421  # of what the words say, before training


class BottleneckFusion(nn.Module):
    """A map looks at mixed words once; a norm follows the attention, none comes before.

    A position token skips the mixing and is the last of the words.
    """

    def __init__(self, width: int, text_encoder: TextEncoder, *, heads: int) -> None:
        super().__init__()
        tokens = text_encoder.max_tokens
        self.text = TokenMixing(
            tokens=tokens, kept=tokens, text_width=text_encoder.width, width=width
        )
        self.attention = Attention(width, heads=heads, dropout=0.0)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.tensor(_FIRST_SCALE))

    def forward(self, visual: Tensor, words: Tensor) -> Tensor:
        """Update a map (B, C, h, w) by words (B, L, D), or by (B, L + 1, D) with a position."""
        return self.look(visual, self.text(words))

    def look(self, visual: Tensor, mixed: Tensor) -> Tensor:
        """Update a map (B, C, h, w) by what ``text`` made of the words (B, L, C)."""
        told = self.attention(coded(to_tokens(visual)), coded(mixed), values=mixed)
        return visual + self.scale * to_map(self.norm(told), visual)


class Decoder(nn.Module):
    """Three up blocks and the sub-pixel head."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DoubleConvUp(width, finer) for width, finer in pairwise(widths[::-1])
        )
        self.head = SubPixelHead(widths[0])

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Map the maps of all levels, finest first, to logits (B, 1, H, W)."""
        return self.head(self.last_map(maps))

    def last_map(self, maps: list[Tensor]) -> Tensor:
        """The finest map (B, C1, H / 4, W / 4), before the head."""
        *skips, x = maps
        for block in self.blocks:
            x = block(x, skips.pop())
        return x


class DoubleConvUp(nn.Module):
    """Transposed convolution x2, the skip map after it, twice 3x3 conv, BatchNorm, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv1 = nn.Conv2d(2 * outputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        for conv in (self.up, self.conv1, self.conv2):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, inputs, h, w) and skip (B, outputs, 2h, 2w)."""
        x = F.relu(self.norm1(self.conv1(torch.cat([self.up(x), skip], dim=1))))
        return F.relu(self.norm2(self.conv2(x)))


def check_widths(widths: tuple[int, ...], *, heads: int) -> None:
    """Refuse widths of an image encoder that the attention or the head cannot take."""
    if heads < 1 or widths[-1] % heads:
        raise UserError(
            f"model.heads={heads}: so many heads do not divide the image encoder's last width "
            f"{widths[-1]}: set model.heads to a divisor of it"
        )
    if widths[0] % 4:
        raise UserError(
            f"the image encoder's first width {widths[0]} is no multiple of 4, which the sub-pixel "
            "head expects: choose other image_encoder.widths"
        )
