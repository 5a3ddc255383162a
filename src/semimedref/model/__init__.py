"""Segmentation networks and their encoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["load"]

if TYPE_CHECKING:
    from semimedref.model.published.loading import load


def __getattr__(name: str) -> object:
    """Import the loader of published checkpoints on first use."""
    if name == "load":
        from semimedref.model.published.loading import load

        return load
    raise AttributeError(f"module 'semimedref.model' has no attribute {name!r}")
