"""Render a position label as a sentence in the grammar of the published QaTa-COV19 captions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from semimedref.text.vocabulary import LUNGS

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve",
)  # fmt: skip


def lung_caption(position: Sequence[int]) -> str:
    """Say which of the lung regions are infected.

    The count is the number of regions, as in SGSeg's captions.

    >>> lung_caption([1, 0, 0, 0, 0, 1])
    'bilateral pulmonary infection, two infected areas, upper left lung and lower right lung.'
    """
    marked = LUNGS.indices(position)
    if not marked:
        raise ValueError("a caption needs at least one marked region")
    sides = {LUNGS.cells[i].side for i in marked}
    laterality = "bilateral" if len(sides) > 1 else "unilateral"
    area = "area" if len(marked) == 1 else "areas"
    return (
        f"{laterality} pulmonary infection, {NUMBERS[len(marked)]} infected {area}, "
        f"{LUNGS.phrase(marked)}."
    )


def swap_sides(text: str) -> str:
    """Exchange the words left and right, keeping everything else."""
    other = {"left": "right", "right": "left"}
    return re.sub(r"\b(left|right)\b", lambda m: other[m.group().lower()], text, flags=re.I)
