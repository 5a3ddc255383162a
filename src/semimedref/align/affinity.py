"""How positive each pair of a batch is: by shared anatomy (PACL), or only with itself (CLIP)."""

from __future__ import annotations

import torch
from torch import Tensor


def jaccard(q: Tensor) -> Tensor:
    """A_ij = |q_i and q_j| / |q_i or q_j| of multi-hot positions q (B, K), with A_ii = 1.

    A sentence that names no region (q = 0) is positive with itself alone.
    """
    q = q.float()
    both = q @ q.T
    either = q.sum(1, keepdim=True) + q.sum(1) - both
    return (both / either.clamp(min=1)).fill_diagonal_(1.0)


def identity(q: Tensor) -> Tensor:
    """A_ij = 1 for i = j, else 0: every other sentence is equally negative."""
    return torch.eye(len(q), device=q.device)
