"""``six_query``: with six regions, six queries; a learned query for each region reads the map."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, position_code_2d
from semimedref.model.position_predictor.regions import check_boxes
from semimedref.text.vocabulary import Box


class RegionQueries(nn.Module):
    """A small transformer decoder: 14,192,646 parameters at the paper's size.

    The memory is the map plus a 2-D sinusoidal code; each query ends in its own linear classifier.

    Args:
        width: C, channels of the map.
        boxes: the K regions; only their number counts here.
        layers: decoder layers.
        heads: attention heads.
        ffn_width: hidden width of the feed-forward parts.
        dropout: rate after and inside the parts of a layer.
        query_std: of the queries and classifiers at the start.
    """

    def __init__(
        self,
        *,
        width: int,
        boxes: Sequence[Box],
        layers: int,
        heads: int,
        ffn_width: int,
        dropout: float,
        query_std: float,
    ) -> None:
        super().__init__()
        check_boxes(boxes)
        if width % heads or width % 4:
            raise UserError(
                f"region queries of width {width} with {heads} heads: expected a width that is a "
                "multiple of the heads and of 4; choose another image_encoder or other heads"
            )
        self.queries = nn.Parameter(torch.empty(len(boxes), width))
        self.layers = nn.ModuleList(
            QueryLayer(width, heads=heads, ffn_width=ffn_width, dropout=dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Parameter(torch.empty(len(boxes), width))
        self.bias = nn.Parameter(torch.zeros(len(boxes)))
        nn.init.normal_(self.queries, std=query_std)
        nn.init.normal_(self.classifier, std=query_std)

    def forward(self, image_map: Tensor) -> Tensor:
        """Logits (B, K) of a map (B, C, h, w)."""
        batch, channels, height, width = image_map.shape
        code = position_code_2d(height, width, channels, image_map.device)
        memory = image_map.flatten(2).transpose(1, 2) + code  # (B, N, C)
        x = self.queries.expand(batch, -1, -1)
        for layer in self.layers:
            x = layer(x, memory)
        return (self.norm(x) * self.classifier).sum(2) + self.bias


class QueryLayer(nn.Module):
    """A pre-norm transformer decoder layer with GELU."""

    def __init__(self, width: int, *, heads: int, ffn_width: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads=heads, dropout=dropout)
        self.cross_attention = Attention(width, heads=heads, dropout=dropout)
        self.ffn = nn.Sequential(
            nn.Linear(width, ffn_width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(ffn_width, width),
        )
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """Update queries x (B, K, C) by each other, then by memory (B, N, C)."""
        y = self.norm1(x)
        x = x + self.dropout(self.self_attention(y, y))
        x = x + self.dropout(self.cross_attention(self.norm2(x), memory))
        return x + self.dropout(self.ffn(self.norm3(x)))
