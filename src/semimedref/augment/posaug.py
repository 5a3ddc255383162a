"""PosAug: on the student's side positional phrases are dropped or blurred (paper, PosAug)."""

from __future__ import annotations

from collections.abc import Sequence

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

    def __call__(self, sentence: str, u: np.ndarray, *, kept: Sequence[int] = ()) -> str:
        """The sentence as the student reads it.

        Args:
            sentence: complete.
            u: the sample's numbers.
            kept: regions whose phrases stay as they are.
        """
        found, stay = phrases(sentence, self.vocabulary), set(kept)
        edits: list[Edit] = [
            "keep" if stay & set(span.regions) else self._choose(k, u)
            for k, span in enumerate(found)
        ]
        return edit(sentence, self.vocabulary, edits)

    def _choose(self, k: int, u: np.ndarray) -> Edit:
        k = 0 if self.unit == "sentence" else k
        first, second = u[2 * (k % _MOST)], u[2 * (k % _MOST) + 1]
        if first >= self.edit:
            return "keep"
        return "drop" if second < self.rho else "fuzz"
