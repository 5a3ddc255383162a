"""The sentence against the mask: a named side without a lesion, a lesion on a side without name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semimedref.dataset.case import Case, Problem
from semimedref.text.vocabulary import Box, Vocabulary

# The share of a mask that may lie on a side without name. Where a word for the center exists, a
# lesion has the name of its own center's place and may reach across the midline, with less than its
# half; otherwise every side that it touches is named.
_ACROSS = {True: 0.5, False: 0.0}


def text_against_mask(
    case: Case, mask: np.ndarray, vocabulary: Vocabulary, *, options: str
) -> Iterator[Problem]:
    """Both findings for a mask (H, W) of 0 and 1 that is not empty.

    A sentence that names nothing is no finding of this check. ``options`` choose the data set on
    the command line.
    """
    cells = [cell for cell, on in zip(vocabulary.cells, case.position, strict=True) if on]
    if not cells:
        return
    named = {cell.side for cell in cells}
    central = any(cell.side is None for cell in vocabulary.cells)
    share = _ACROSS[central]
    look = (
        f"`semimedref data show {options} split={case.split} cases=NAME`: the text or the mask is "
        "wrong; left is image-left"
    )
    for side in vocabulary.sides:
        inside = _pixels(mask, side_box(vocabulary, side))
        if side in named and not inside:
            yield Problem("text names a side without mask", f"{case.id} ({side})", look, "warning")
        elif side not in named and None not in named and inside > share * mask.sum():
            yield Problem("mask on a side without name", f"{case.id} ({side})", look, "warning")
    for cell in cells:
        if cell.side is None and not _pixels(mask, cell.box):
            kind = "text names a region without mask"
            yield Problem(kind, f"{case.id} ({cell.name})", look, "warning")


def side_box(vocabulary: Vocabulary, side: str) -> Box:
    """The smallest box around all regions of a side."""
    boxes = [cell.box for cell in vocabulary.cells if cell.side == side]
    tops, bottoms, lefts, rights = zip(*boxes, strict=True)
    return Box(min(tops), max(bottoms), min(lefts), max(rights))


def _pixels(mask: np.ndarray, box: Box) -> int:
    top, bottom, left, right = box.pixels(*mask.shape)
    return int(mask[top:bottom, left:right].sum())
