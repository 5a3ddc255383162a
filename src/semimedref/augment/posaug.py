"""PosAug: on the student's side positional phrases are dropped or blurred (paper, PosAug)."""

from __future__ import annotations

import numpy as np

from semimedref.text.spans import Edit, edit, phrases

_MOST = 4  # phrases of a sentence with numbers of their own; further ones share them


class PosAug:
    """Each positional phrase: edited with ``edit``; then dropped with rho, else fuzzed."""

    draws = 2 * _MOST

    def __init__(self, *, edit: float, rho: float, vocabulary: str) -> None:
        self.edit, self.rho, self.vocabulary = edit, rho, vocabulary

    def __call__(self, sentence: str, u: np.ndarray) -> str:
        """The sentence as the student reads it; u holds the sample's numbers."""
        found = phrases(sentence, self.vocabulary)
        return edit(sentence, self.vocabulary, [self._choose(k, u) for k in range(len(found))])

    def _choose(self, k: int, u: np.ndarray) -> Edit:
        first, second = u[2 * (k % _MOST)], u[2 * (k % _MOST) + 1]
        if first >= self.edit:
            return "keep"
        return "drop" if second < self.rho else "fuzz"
