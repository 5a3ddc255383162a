"""``align=clip``: the rival of PACL, each image with its own sentence only."""

from __future__ import annotations

from torch import Tensor

from semimedref.align.affinity import identity
from semimedref.align.alignment import Alignment


class CLIP(Alignment):
    """Every other sentence of the batch is equally negative (Radford et al., 2021)."""

    @staticmethod
    def affinity(q: Tensor) -> Tensor:
        """The identity."""
        return identity(q)
