"""``region_pool``: every region is judged by what lies in its box."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from semimedref.model.position_predictor.regions import cells, check_boxes, mirror
from semimedref.text.vocabulary import Box


class RegionPool(nn.Module):
    """Box means, one LayerNorm, a network for each region: 1,775,622 parameters at paper size.

    Args:
        width: C, channels of the map.
        boxes: the K regions. "Left" of a report is the left of the image in both data sets.
        hidden: width of each region's hidden layer.
        dropout: rate after it.
        mirrored: look on the other side of the image, as the authors' release does.
    """

    def __init__(
        self, *, width: int, boxes: Sequence[Box], hidden: int, dropout: float, mirrored: bool
    ) -> None:
        super().__init__()
        check_boxes(boxes)
        self.boxes = [mirror(box) if mirrored else box for box in boxes]
        count = len(boxes)
        self.norm = nn.LayerNorm(width)
        # A grouped convolution over one position is a Linear for each region, in one call.
        self.layers = nn.Sequential(
            nn.Conv1d(count * width, count * hidden, 1, groups=count),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Conv1d(count * hidden, count, 1, groups=count),
        )

    def forward(self, image_map: Tensor) -> Tensor:
        """Logits (B, K) of a map (B, C, h, w)."""
        pooled = self.norm(self.pool(image_map))
        return self.layers(pooled.flatten(1).unsqueeze(2)).squeeze(2)

    def pool(self, image_map: Tensor) -> Tensor:
        """The mean (B, K, C) of each box."""
        parts = [cells(box, *image_map.shape[-2:]) for box in self.boxes]
        return torch.stack([image_map[:, :, r, c].mean((2, 3)) for r, c in parts], dim=1)
