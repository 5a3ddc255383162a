"""Heads that bring image and text into the space where they are compared."""

from __future__ import annotations

from torch import nn


def image_projection(inputs: int, width: int) -> nn.Sequential:
    """Proj_I: Linear, LayerNorm."""
    return nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width))


def text_projection(inputs: int, width: int) -> nn.Sequential:
    """Proj_T: Linear, LayerNorm, GELU, Linear."""
    return nn.Sequential(
        nn.Linear(inputs, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width)
    )
