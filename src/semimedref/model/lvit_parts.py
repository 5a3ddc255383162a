"""Parts of LViT: convolutions with BatchNorm, transformer blocks, PLAM and the up block."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.model.blocks import Attention

_MLP_RATIO = 4  # hidden width of a block's MLP over its own
_STATS = 3  # mean, maximum and their sum: what PLAM knows of a pixel
_TINY = 1e-6  # deviation of the first biases of an MLP


class ConvNorm(nn.Module):
    """3x3 convolution, BatchNorm, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs, h, w) to (B, outputs, h, w)."""
        return F.relu(self.norm(self.conv(x)))


def two_convs(inputs: int, outputs: int) -> nn.Sequential:
    """Return two convolutions with BatchNorm and ReLU."""
    return nn.Sequential(ConvNorm(inputs, outputs), ConvNorm(outputs, outputs))


class AxisConv(nn.Module):
    """Convolution of 3 over the last axis, BatchNorm, ReLU; the middle axis is the channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs, n) to (B, outputs, n)."""
        return F.relu(self.norm(self.conv(x)))

    def along(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, n, inputs) to (B, n, outputs): the convolution goes along the tokens."""
        return self(tokens.mT).mT


class PatchEmbedding(nn.Module):
    """A map cut into patches, each a token as wide as the map, with a learned position."""

    def __init__(self, width: int, *, patch: int, tokens: int, dropout: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(1, tokens, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to tokens (B, h * w / patch^2, C)."""
        return self.dropout(self.conv(x).flatten(2).mT + self.position)


class Block(nn.Module):
    """A pre-norm transformer block; its MLP has a GELU after either linear, as published."""

    def __init__(self, width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads=heads, dropout=0.0)
        self.mlp = nn.Sequential(
            nn.Linear(width, _MLP_RATIO * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(_MLP_RATIO * width, width),
            nn.GELU(),
            nn.Dropout(dropout),
        )
        self._initialize(width)

    def forward(self, x: Tensor) -> Tensor:
        """Update tokens x (B, n, C)."""
        y = self.norm1(x)
        x = x + self.attention(y, y)
        return x + self.mlp(self.norm2(x))

    def _initialize(self, width: int) -> None:
        """As published: plain linear layers in the attention, Xavier in the MLP."""
        bound = 1 / math.sqrt(width)
        nn.init.uniform_(self.attention.in_proj_weight, -bound, bound)
        nn.init.uniform_(self.attention.in_proj_bias, -bound, bound)
        for linear in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=_TINY)


class Reconstruct(nn.Module):
    """Tokens as a map: 1x1 convolution, BatchNorm, ReLU, every token as a square of pixels.

    The published order enlarges first. Both are the same function, as all three act on each pixel
    alone and every token fills equally many; only n / (n - 1) of a running variance differs.
    """

    def __init__(self, width: int, *, side: int, scale: int) -> None:
        super().__init__()
        self.side, self.scale = side, scale
        self.conv = nn.Conv2d(width, width, 1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, side^2, C) to (B, C, side * scale, side * scale)."""
        x = F.relu(self.norm(self.conv(to_map(tokens, self.side))))
        return F.interpolate(x, scale_factor=self.scale, mode="nearest")


class PixelAttention(nn.Module):
    """PLAM: mean and maximum over the channels of a pixel decide how much of it is kept."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean = nn.Conv2d(width, width, 1, bias=False)
        self.max = nn.Conv2d(width, width, 1, bias=False)
        hidden = 2 * _STATS
        self.mlp = nn.Sequential(nn.Linear(_STATS, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Weight the pixels of x (B, C, h, w) by a number of any size and sign."""
        mean = F.relu(self.mean(x)).mean(1)
        most = F.relu(self.max(x)).amax(1)
        weight = self.mlp(torch.stack([mean, most, mean + most], dim=-1))  # (B, h, w, 1)
        return weight.movedim(-1, 1) * x


class PixelUpBlock(nn.Module):
    """Nearest neighbors x2 behind the weighted skip map, then two convolutions."""

    def __init__(self, skip: int, outputs: int) -> None:
        super().__init__()
        self.attention = PixelAttention(skip)
        self.convs = two_convs(2 * skip, outputs)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, C, h, w) and skip (B, C, 2h, 2w)."""
        up = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.convs(torch.cat([self.attention(skip), up], dim=1))


def to_map(tokens: Tensor, side: int) -> Tensor:
    """Read tokens (B, side^2, C) as a map (B, C, side, side)."""
    return tokens.mT.unflatten(2, (side, side))
