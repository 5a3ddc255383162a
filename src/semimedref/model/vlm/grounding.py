"""Patches as a finer map, in which a sentence is looked for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BLOCKS = 2


class GroundingDecoder(nn.Module):
    """Two residual blocks, each of which doubles the side; at first they only enlarge.

    Args:
        width: channels.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(GatedBlock(width) for _ in range(_BLOCKS))

    def forward(self, patches: Tensor) -> Tensor:
        """Map (B, D, h, w) to (B, D, 4 h, 4 w), every pixel of length one."""
        # Where the channels come last, the gradient of a CPU's group norm reads outside its memory.
        patches = patches.contiguous()
        for block in self.blocks:
            patches = block(patches)
        return F.normalize(patches.float(), dim=1)


class GatedBlock(nn.Module):
    """x2 by repeating pixels; norm, GELU and two 3x3 convolutions behind a gate that is shut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, D, h, w) to (B, D, 2 h, 2 w)."""
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        y = self.conv2(F.gelu(self.conv1(F.gelu(self.norm(x)))))
        return x + self.gate.tanh() * y


def similarity(features: Tensor, sentences: Tensor) -> Tensor:
    """Cosine (B, T, h, w) of every pixel of maps (B, D, h, w) with every sentence (T, D)."""
    return torch.einsum("bdhw,td->bthw", features, sentences)


def of_own(maps: Tensor) -> Tensor:
    """Of maps (B, B, h, w) of every sentence in every image, those of its own: (B, 1, h, w)."""
    return maps.diagonal(dim1=0, dim2=1).permute(2, 0, 1)[:, None]


def gumbel_mask(logits: Tensor) -> Tensor:
    """0 or 1 drawn from sigmoid(logits); gradients pass as through the soft sample."""
    u = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
    soft = (logits + u.log() - (-u).log1p()).sigmoid()
    return (soft > 0.5).to(soft.dtype) + (soft - soft.detach())
