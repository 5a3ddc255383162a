"""PosAug: on the student's side positional phrases are dropped or blurred (paper, PosAug)."""

from __future__ import annotations

import numpy as np

from semimedref.errors import UserError
from semimedref.text.spans import Edit, edit, phrases

_MOST = 4  # phrases of a sentence with numbers of their own; further ones share them


class PosAug:
    """Edited with probability ``edit``; then dropped to ``[UNK_POS]`` with rho, else fuzzed.

    Each ``phrase`` on its own, or all phrases of a ``sentence`` alike.
    """

    draws = 2 * _MOST

    def __init__(self, *, unit: str, edit: float, rho: float, vocabulary: str) -> None:
        if unit not in ("phrase", "sentence"):
            raise UserError(f"PosAug's unit '{unit}' is unknown: expected phrase or sentence")
        self.unit = unit
        self.edit, self.rho, self.vocabulary = edit, rho, vocabulary

    def __call__(self, sentence: str, u: np.ndarray) -> str:
        """The sentence as the student reads it; u holds the sample's numbers."""
        found = phrases(sentence, self.vocabulary)
        return edit(sentence, self.vocabulary, [self._choose(k, u) for k in range(len(found))])

    def _choose(self, k: int, u: np.ndarray) -> Edit:
        k = 0 if self.unit == "sentence" else k
        first, second = u[2 * (k % _MOST)], u[2 * (k % _MOST) + 1]
        if first >= self.edit:
            return "keep"
        return "drop" if second < self.rho else "fuzz"
