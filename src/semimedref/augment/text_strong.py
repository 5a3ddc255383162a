"""TextStrong: generic word edits that know nothing of positions (a rival)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MOST = 24  # words with numbers of their own; further ones share them
_SYNONYMS = {
    "bilateral": "two-sided", "unilateral": "one-sided", "pulmonary": "lung",
    "infection": "disease", "infected": "affected", "area": "region", "areas": "regions",
    "upper": "top", "middle": "central", "lower": "bottom", "left": "left-sided",
    "right": "right-sided", "lung": "pulmonary field", "and": "plus", "all": "whole",
    "located": "situated", "tumor": "mass", "image": "picture", "near": "close to",
}  # fmt: skip


class TextStrong:
    """Each word is replaced by a synonym or deleted; no word is protected."""

    draws = _MOST

    def __init__(self, *, synonym: float, delete: float) -> None:
        self.synonym, self.delete = synonym, delete

    def __call__(self, sentence: str, u: np.ndarray, *, kept: Sequence[int] = ()) -> str:
        """The edited sentence; u holds the sample's numbers, regions are not looked at."""
        del kept
        words = []
        for k, word in enumerate(sentence.split(" ")):
            draw = u[k % _MOST]
            if draw < self.delete:
                continue
            core = word.strip(".,").lower()
            if draw < self.delete + self.synonym and core in _SYNONYMS:
                word = word.lower().replace(core, _SYNONYMS[core])
            words.append(word)
        return " ".join(words) or sentence
