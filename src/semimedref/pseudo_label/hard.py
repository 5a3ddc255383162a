"""Hard pseudo-masks (paper, Eq. pseudo-labeling)."""

from __future__ import annotations

from torch import Tensor


class Hard:
    """Foreground where the teacher is at least ``threshold`` sure."""

    def __init__(self, *, threshold: float) -> None:
        self.threshold = threshold

    def __call__(self, probability: Tensor, *, threshold: float | None = None) -> Tensor:
        """Target 0 or 1 for every pixel of P (B, 1, H, W)."""
        cut = self.threshold if threshold is None else threshold
        return (probability >= cut).to(probability.dtype)
