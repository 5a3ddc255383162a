"""Render a position label as a sentence in the grammar of the published QaTa-COV19 captions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from semimedref.text.vocabulary import LUNGS

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


def lung_caption(position: Sequence[int]) -> str:
    """Say which of the six lung regions are infected.

    The count is the number of regions, as in SGSeg's captions.

    >>> lung_caption([1, 0, 0, 0, 0, 1])
    'bilateral pulmonary infection, two infected areas, upper left lung and lower right lung.'
    """
    per_side = len(LUNGS.levels)
    phrases = []
    for i, side in enumerate(LUNGS.sides):
        marked = position[i * per_side : (i + 1) * per_side]
        levels = [level for level, on in zip(LUNGS.levels, marked, strict=True) if on]
        if levels:
            phrases.append(f"{' '.join(levels)} {side} lung")
    if not phrases:
        raise ValueError("a caption needs at least one marked region")
    count = sum(int(bool(on)) for on in position)
    laterality = "bilateral" if len(phrases) == 2 else "unilateral"
    area = "area" if count == 1 else "areas"
    return (
        f"{laterality} pulmonary infection, {_NUMBERS[count]} infected {area}, "
        f"{' and '.join(phrases)}."
    )


def swap_sides(text: str) -> str:
    """Exchange the words left and right, keeping everything else."""
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda m: other[m.group().lower()], text, flags=re.I)
