"""``align=pacl``: Positional Affinity Contrastive Learning (paper, section PACL)."""

from __future__ import annotations

from torch import Tensor

from semimedref.align.affinity import jaccard
from semimedref.align.alignment import Alignment


class PACL(Alignment):
    """Sentences that name some of the same regions are partly positive."""

    @staticmethod
    def affinity(q: Tensor) -> Tensor:
        """The Jaccard index of the named regions."""
        return jaccard(q)
