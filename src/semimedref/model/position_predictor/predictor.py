"""An image-only predictor of positions: trunk and head (paper, g_phi of Eq. ispg)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from semimedref.model.encoders.image import ImageEncoder
from semimedref.text.vocabulary import Box


class PositionPredictor(nn.Module):
    """Which of K regions does the report of this image name?

    Args:
        image_encoder: the trunk; its last level is read, without a final norm.
        head: makes a head from ``width`` and ``boxes``; the options are partial.
        boxes: the K regions of the data set's vocabulary, in the order of its labels.
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        head: Callable[..., nn.Module],
        *,
        boxes: Sequence[Box],
    ) -> None:
        super().__init__()
        self.image_encoder = image_encoder
        self.head = head(width=image_encoder.widths[-1], boxes=boxes)

    def forward(self, image: Tensor) -> Tensor:
        """Logits (B, K) of z-scored gray images (B, 1, H, W)."""
        return self.head(self.image_encoder(image)[-1])
