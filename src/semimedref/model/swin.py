"""Swin Transformer as an image encoder whose stages can be run one by one (ICCV 2021).

Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows".
Re-implemented from its description, without the final norm and the classifier. As in networks for
dense prediction, maps of any size are padded to whole windows, and the shift stays where a map is
no larger than its window.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.image import ImageEncoder

_PATCH = 4  # pixels a side that become one place of the first map
_APART = -100.0  # score of two places that only the shift has brought into one window


class Swin(ImageEncoder):
    """Four stages of window attention; level i + 1 begins with the merging that follows stage i.

    Args:
        width: channels of the first level; each further level has twice as many.
        depths: blocks of each stage.
        heads: attention heads of each stage; they must divide its width.
        window: places a side of a window.
        drop_path: rate at which the last block is left out in training; it rises from 0 on.
        weights: "random", a file (names of the first release or of timm), or "hub:<timm id>".
    """

    def __init__(
        self,
        *,
        width: int,
        depths: Sequence[int],
        heads: Sequence[int],
        window: int,
        drop_path: float,
        weights: str | None,
    ) -> None:
        widths = tuple(width * 2**level for level in range(4))
        _check_sizes(widths, depths, heads)
        path = source.resolve(
            weights,
            key="image_encoder.weights",
            example="/path/to/swin_base_patch4_window12_384_22k.pth",
            files=["model.safetensors"],
        )
        entries = [PatchEmbedding(3, width), *(PatchMerging(*pair) for pair in pairwise(widths))]
        rates = torch.linspace(0, drop_path, sum(depths), device="cpu").split(list(depths))
        levels = [
            SwinStage(entry, c, heads=h, window=window, drop_path=stage.tolist())
            for entry, c, h, stage in zip(entries, widths, heads, rates, strict=True)
        ]
        super().__init__(list(levels), widths=widths, channels=3)
        self.apply(initialize)
        if path is not None:
            given = own_names(source.read(path))
            own = self.state_dict()
            source.check_fit(own, given, source=path)
            self.load_state_dict({key: given[key] for key in own})


class SwinStage(nn.Module):
    """What makes the map smaller, then blocks whose windows are shifted in every second one."""

    def __init__(
        self, entry: nn.Module, width: int, *, heads: int, window: int, drop_path: Sequence[float]
    ) -> None:
        super().__init__()
        self.window = window
        self.down = entry
        self.blocks = nn.ModuleList(
            SwinBlock(
                width,
                heads=heads,
                window=window,
                shift=window // 2 if block % 2 else 0,
                drop_path=rate,
            )
            for block, rate in enumerate(drop_path)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C', H, W) to (B, C, h, w), in the memory layout (B, h, w, C)."""
        x = self.down(x.permute(0, 2, 3, 1))
        apart = shift_mask(*x.shape[1:3], window=self.window, device=x.device)
        for block in self.blocks:
            x = block(x, apart)
        return x.permute(0, 3, 1, 2)


class PatchEmbedding(nn.Module):
    """Patches of 4 x 4 pixels become places: convolution, LayerNorm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(inputs, outputs, _PATCH, stride=_PATCH)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, image: Tensor) -> Tensor:
        """Map (B, H, W, 3) to (B, H / 4, W / 4, C)."""
        return self.norm(self.proj(image.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


class PatchMerging(nn.Module):
    """Four neighbors become one place: LayerNorm, Linear; an odd map gets a row, a column of 0."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * inputs)
        self.reduction = nn.Linear(4 * inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H / 2, W / 2, 2C), sides rounded up."""
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        x = x.unflatten(2, (-1, 2)).unflatten(1, (-1, 2))  # (B, h, row, w, column, C)
        # Neighbors in the order (0, 0), (1, 0), (0, 1), (1, 1) of (row, column).
        return self.reduction(self.norm(x.permute(0, 1, 3, 4, 2, 5).flatten(3)))


class SwinBlock(nn.Module):
    """Attention inside windows, then an MLP of four times the width; norms come first."""

    def __init__(
        self, width: int, *, heads: int, window: int, shift: int, drop_path: float
    ) -> None:
        super().__init__()
        self.window, self.shift, self.drop_path = window, shift, drop_path
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = WindowAttention(width, heads=heads, window=window)
        self.mlp = Mlp(width, 4 * width)

    def forward(self, x: Tensor, apart: Tensor) -> Tensor:
        """Update a map (B, H, W, C); `apart` is its `shift_mask`."""
        x = x + self._kept(self._attend(self.norm1(x), apart))
        return x + self._kept(self.mlp(self.norm2(x)))

    def _attend(self, x: Tensor, apart: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        # Zeros on the right and at the bottom; they come after the norm and take part.
        x = F.pad(x, (0, 0, 0, -width % self.window, 0, -height % self.window))
        padded = x.shape[1:3]
        if self.shift:
            x = x.roll((-self.shift, -self.shift), dims=(1, 2))
        windows = self.attn(into_windows(x, self.window), apart if self.shift else None)
        x = from_windows(windows, padded)
        if self.shift:
            x = x.roll((self.shift, self.shift), dims=(1, 2))
        return x[:, :height, :width]

    def _kept(self, update: Tensor) -> Tensor:
        """In training, leave out the update of some images and raise that of the others."""
        if not self.training or not self.drop_path:
            return update
        return update * F.dropout(update.new_ones(len(update), 1, 1, 1), self.drop_path)


class WindowAttention(nn.Module):
    """Multi-head attention with a learned score for each offset of two places."""

    def __init__(self, width: int, *, heads: int, window: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        offset = offsets(window).to(self.relative_position_bias_table.device)
        self.register_buffer("offset", offset, persistent=False)

    def take(self, index: Tensor) -> None:
        """Use the index (N, N) of a checkpoint; it is the usual one unless somebody changed it."""
        self.offset = index.long().clamp(0, len(self.relative_position_bias_table) - 1)

    def forward(self, x: Tensor, apart: Tensor | None) -> Tensor:
        """Update places (B, windows, N, C); `apart` is (windows, N, N) or None."""
        images, windows = x.shape[:2]
        q, k, v = (
            self.qkv(x.flatten(0, 1)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )  # each (B * windows, heads, N, C / heads)
        scores = self.relative_position_bias_table[self.offset].permute(2, 0, 1)[None]
        if apart is not None:
            scores = (scores + apart[:, None]).expand(images, windows, -1, -1, -1).flatten(0, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=scores.to(q.dtype))
        return self.proj(mixed.transpose(1, 2).flatten(2)).unflatten(0, (images, windows))


class Mlp(nn.Module):
    """Linear, exact GELU, Linear."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Update (..., C)."""
        return self.fc2(F.gelu(self.fc1(x)))


def into_windows(x: Tensor, window: int) -> Tensor:
    """Cut a map (B, H, W, C) of whole windows into (B, windows, places, C), row by row."""
    x = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def from_windows(x: Tensor, size: Sequence[int]) -> Tensor:
    """Undo `into_windows` for a map of the given height and width."""
    window = round(x.shape[2] ** 0.5)
    x = x.unflatten(2, (window, window)).unflatten(1, (size[0] // window, -1))
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def offsets(window: int) -> Tensor:
    """The row (N, N) of the table for each pair of places: rows first, both counted from 0."""
    axis = torch.arange(window, device="cpu")  # counting on no device takes seconds
    place = torch.cartesian_prod(axis, axis)
    offset = place[:, None] - place[None] + window - 1
    return offset[..., 0] * (2 * window - 1) + offset[..., 1]


def shift_mask(height: int, width: int, *, window: int, device: torch.device) -> Tensor:
    """Scores (windows, N, N) that part what the shift has brought together from opposite edges."""

    def parts(length: int) -> Tensor:
        length += -length % window
        place = torch.arange(length, device=device)
        return (place >= length - window).float() + (place >= length - window // 2).float()

    part = 3 * parts(height)[:, None] + parts(width)
    part = into_windows(part[None, ..., None], window)[0, ..., 0]  # (windows, N)
    return _APART * (part[:, :, None] != part[:, None]).float()


def initialize(module: nn.Module) -> None:
    """As published: truncated normal of 0.02 for matrices and tables; the rest as PyTorch does."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, WindowAttention):
        nn.init.trunc_normal_(module.relative_position_bias_table, std=0.02)


def own_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors of the first release, or of timm, which merges before a stage as we do."""
    after = any(key.startswith("layers.0.downsample.") for key in state)
    renamed = {}
    for key, value in state.items():
        key = re.sub(r"^patch_embed\.", "levels.0.down.", key)
        key = re.sub(r"^layers\.(\d)\.blocks\.", r"levels.\1.blocks.", key)
        merging = re.match(r"layers\.(\d)\.downsample\.", key)
        if merging:
            key = f"levels.{int(merging[1]) + after}.down.{key[merging.end() :]}"
        renamed[key] = value
    return renamed


def _check_sizes(widths: Sequence[int], depths: Sequence[int], heads: Sequence[int]) -> None:
    if len(depths) != 4 or len(heads) != 4:
        raise UserError(
            f"image_encoder.depths={list(depths)} image_encoder.heads={list(heads)}: expected one "
            "number for each of four stages"
        )
    bad = [(h, c) for h, c in zip(heads, widths, strict=True) if c % h]
    if bad:
        raise UserError(
            f"{bad[0][0]} attention heads do not divide Swin's width {bad[0][1]} (widths "
            f"{', '.join(map(str, widths))}): set image_encoder.heads to divisors"
        )
