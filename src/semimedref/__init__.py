"""Semi-supervised medical referring image segmentation, reproduced and extended."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Predictor", "__version__"]

if TYPE_CHECKING:
    from semimedref.predictor import Predictor


def __getattr__(name: str) -> object:
    """Import the predictor on first use, so that ``import semimedref`` stays free of torch."""
    if name == "Predictor":
        from semimedref.predictor import Predictor

        return Predictor
    raise AttributeError(f"module 'semimedref' has no attribute {name!r}")
