"""Heads that bring image and text into the space where they are compared."""

from __future__ import annotations

from torch import nn


def projection(inputs: int, width: int, *, layers: int) -> nn.Sequential:
    """Linear and LayerNorm, then GELU and Linear for every further layer.

    One layer is the paper's Proj_I, two are its Proj_T.
    """
    first = [nn.Linear(inputs, width), nn.LayerNorm(width)]
    more = [part for _ in range(layers - 1) for part in (nn.GELU(), nn.Linear(width, width))]
    return nn.Sequential(*first, *more)
