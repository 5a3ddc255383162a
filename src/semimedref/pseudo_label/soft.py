"""Soft pseudo-masks (paper's supplement, Eq. hard and soft pseudo-labels)."""

from __future__ import annotations

import torch
from torch import Tensor


class Soft:
    """A steep sigmoid around ``threshold`` instead of a step."""

    def __init__(self, *, threshold: float, temperature: float) -> None:
        self.threshold, self.temperature = threshold, temperature

    def __call__(self, probability: Tensor, *, threshold: float | None = None) -> Tensor:
        """Target in (0, 1) for every pixel of P (B, 1, H, W)."""
        cut = self.threshold if threshold is None else threshold
        return torch.sigmoid((probability - cut) / self.temperature)
