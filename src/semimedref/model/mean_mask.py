"""The control without text and image: the mean mask of all labeled images."""

from collections.abc import Iterable

from torch import Tensor

from semimedref.model.atlas import Atlas
from semimedref.model.encoders.no_text import NoText


class MeanMask(Atlas):
    """An atlas of one label: all images are alike.

    Args:
        image_side: pixels a side of the mask.
        smoothing: standard deviation of a Gaussian over the mean, in image sides; 0 for none.
    """

    def __init__(self, *, image_side: int, smoothing: float) -> None:
        super().__init__(NoText(), image_side=image_side, smoothing=smoothing)

    def collect(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Count masks (B, 1, H, W) without regard to their labels."""
        super().collect((mask, position[:, :0]) for mask, position in pairs)

    def shares(self, q: Tensor) -> Tensor:
        """Return all for the only mean (B, 1)."""
        return self.counts.new_ones(len(q), 1)
