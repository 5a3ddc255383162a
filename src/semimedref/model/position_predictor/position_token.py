"""The soft position token (paper, h_psi of Eq. ispg)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PositionToken(nn.Module):
    """Linear, GELU, Linear, LayerNorm, times a gate: 151,104 + 1 parameters at the paper's size.

    Args:
        regions: K.
        hidden: width of the hidden layer.
        width: of the token, that of the text it joins.
        gate: start value g; the token is multiplied by sigmoid(g).
    """

    def __init__(self, *, regions: int, hidden: int, width: int, gate: float) -> None:
        super().__init__()
        self.projector = nn.Sequential(
            nn.Linear(regions, hidden), nn.GELU(), nn.Linear(hidden, width), nn.LayerNorm(width)
        )
        self.gate = nn.Parameter(torch.tensor(gate))

    def forward(self, position: Tensor) -> Tensor:
        """Tokens (B, width) of probabilities or labels (B, K)."""
        return self.gate.sigmoid() * self.projector(position)
