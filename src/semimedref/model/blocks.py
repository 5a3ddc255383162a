"""Parts that segmentation networks share: attention, position code, up blocks, sub-pixel head."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention with one packed projection (q, k, v rows in this order).

    Attributes:
        image_by_image: how dropped weights are computed; the hardware sets it where that is faster.
    """

    image_by_image = False

    def __init__(self, width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        *,
        values: Tensor | None = None,
    ) -> Tensor:
        """Let tokens x (B, N, C) look at memory (B, M, C) where mask (B, M) is True.

        What they take over is `values` (B, M, C), by default the memory itself.
        """
        width = x.shape[-1]
        if values is not None:
            weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
            q, k, v = map(F.linear, (x, memory, values), weights, biases)
        elif x is memory:
            q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            q = F.linear(x, self.in_proj_weight[:width], self.in_proj_bias[:width])
            packed = F.linear(memory, self.in_proj_weight[width:], self.in_proj_bias[width:])
            k, v = packed.chunk(2, -1)
        seen = None if mask is None else mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        heads = self._split(q), self._split(k), self._split(v)
        if dropout and self.image_by_image:
            mixed = _attend_image_by_image(*heads, seen, dropout=dropout)
        else:
            mixed = F.scaled_dot_product_attention(*heads, attn_mask=seen, dropout_p=dropout)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, C / heads)


def _attend_image_by_image(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, *, dropout: float
) -> Tensor:
    """Attention with dropout in which the weights (N, M) of an image stay in a CPU's cache.

    The same mathematics as torch's, which goes through the whole batch once for every operation
    and draws a float for every weight; a quarter faster at the CPU scale.

    Args:
        q: queries (B, heads, N, C / heads).
        k: keys (B, heads, M, C / heads).
        v: values, like the keys.
        seen: (B, 1, 1, M), True where a key may be looked at, or None.
        dropout: the share of the weights that is dropped.
    """
    q, v = q.float() * q.shape[-1] ** -0.5, v.float() / (1 - dropout)
    mixed = []
    with torch.autocast("cpu", enabled=False):  # heads are narrow: casts cost more
        for at in range(len(q)):
            scores = q[at] @ k[at].float().mT
            if seen is not None:
                scores = scores.masked_fill(~seen[at], -torch.inf)
            weights = scores.softmax(-1)
            mixed.append((weights * _kept(weights.shape, dropout)) @ v[at])
    return torch.stack(mixed)


def _kept(shape: torch.Size, dropout: float) -> Tensor:
    """A mask that is False with a probability of ``dropout``, to 1 / 65536; 16 bits an element."""
    number = shape.numel()
    bits = torch.empty(-(-number // 4), dtype=torch.int64).random_(-(2**63), None)
    least = round(dropout * 2**16) - 2**15
    return (bits.view(torch.int16)[:number] >= least).view(shape)


def feed_forward(width: int, hidden: int, *, dropout: float) -> nn.Sequential:
    """Return Linear, ReLU, dropout, Linear."""
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width)
    )


def position_code_2d(height: int, width: int, channels: int, device: torch.device) -> Tensor:
    """Return a sinusoidal code (height * width, channels): rows in the first half, columns after.

    Within a half, sines come before cosines; wavelengths rise geometrically from 2 pi.
    """
    quarter = channels // 4
    steps = torch.arange(quarter, device=device, dtype=torch.float32)
    speed = torch.exp(steps * (-math.log(10000.0) / quarter))

    def waves(length: int) -> Tensor:
        angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed
        return torch.cat([angle.sin(), angle.cos()], dim=1)  # (length, channels / 2)

    rows = waves(height)[:, None].expand(-1, width, -1)
    columns = waves(width)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=2).flatten(0, 1)


def position_code_1d(length: int, channels: int, device: torch.device) -> Tensor:
    """Return the sinusoidal code (length, channels) of Vaswani et al.: sin and cos in turn."""
    steps = torch.arange(0, channels, 2, device=device, dtype=torch.float32)
    speed = torch.exp(steps * (-math.log(10000.0) / channels))
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * speed
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :channels]


class UpBlock(nn.Module):
    """Transposed convolution x2, concatenation with the skip map, 3x3 conv, BatchNorm, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv = nn.Conv2d(2 * outputs, outputs, 3, padding=1)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, inputs, h, w) and skip (B, outputs, 2h, 2w)."""
        return F.relu(self.norm(self.conv(torch.cat([self.up(x), skip], dim=1))))


class SubPixelHead(nn.Module):
    """3x3 conv, pixel shuffle x4, 4x4 blur against checkerboards, 1x1 conv to one logit."""

    scale = 4

    def __init__(self, inputs: int) -> None:
        super().__init__()
        hidden = inputs // self.scale
        self.conv = nn.Conv2d(inputs, hidden * self.scale**2, 3, padding=1)
        self.out = nn.Conv2d(hidden, 1, 1)
        self._icnr()

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs, h, w) to logits (B, 1, 4h, 4w).

        Shuffle and blur act on each channel alone, so the 1x1 conv may come before them, and two
        convolutions in a row are one: the same function at 1 / hidden of the cost.
        """
        mix = self.out.weight.flatten()  # (hidden,)
        kernel = torch.einsum("h,hsijk->sijk", mix, self.conv.weight.unflatten(0, (len(mix), -1)))
        bias = mix @ self.conv.bias.unflatten(0, (len(mix), -1))
        x = F.pixel_shuffle(F.conv2d(x, kernel, bias, padding=1), self.scale)
        before = self.scale - 1  # padded on the left and on the top only
        x = F.pad(x, (before, 0, before, 0))
        for axis in (-1, -2):  # a mean of neighbors along each axis: far quicker than a 2-D pooling
            size = x.shape[axis] - before
            x = sum(x.narrow(axis, at, size) for at in range(self.scale)) / self.scale
        return x + self.out.bias[:, None, None]

    @torch.no_grad()
    def _icnr(self) -> None:
        """Let the 16 filters of each sub-pixel group start equal (Aitken et al., 2017)."""
        weight = self.conv.weight
        kernel = torch.empty_like(weight[:: self.scale**2])
        nn.init.kaiming_normal_(kernel)
        weight.copy_(kernel.repeat_interleave(self.scale**2, dim=0))
