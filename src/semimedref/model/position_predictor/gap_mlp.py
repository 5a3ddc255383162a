"""``gap_mlp``: global average and a small network (the paper's choice)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from semimedref.model.position_predictor.regions import check_boxes
from semimedref.text.vocabulary import Box


class GapMlp(nn.Module):
    """GAP, LayerNorm, Linear, GELU, dropout, Linear: 299,142 parameters at the paper's size.

    Args:
        width: C, channels of the map.
        boxes: the K regions; only their number counts here.
        hidden: width of the hidden layer.
        dropout: rate after it.
    """

    def __init__(self, *, width: int, boxes: Sequence[Box], hidden: int, dropout: float) -> None:
        super().__init__()
        check_boxes(boxes)
        self.layers = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, len(boxes)),
        )

    def forward(self, image_map: Tensor) -> Tensor:
        """Logits (B, K) of a map (B, C, h, w)."""
        return self.layers(image_map.mean((2, 3)))
