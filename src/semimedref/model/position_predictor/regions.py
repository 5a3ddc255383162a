"""Regions of the image as cells of a feature map."""

from __future__ import annotations

import math
from collections.abc import Sequence

from semimedref.text.vocabulary import Box


def mirror(box: Box) -> Box:
    """The box on the other side of the image."""
    return box._replace(left=1 - box.right, right=1 - box.left)


def cells(box: Box, height: int, width: int) -> tuple[slice, slice]:
    """Rows and columns of a box on a map, at least one of each.

    Borders go to the nearest line between cells, from the middle of a cell to the lower one: on a
    7 x 7 map, thirds of the height are the rows 0-2, 2-5 and 5-7, and halves the columns 0-3, 3-7.
    """
    return _span(box.top, box.bottom, height), _span(box.left, box.right, width)


def check_boxes(boxes: Sequence[Box]) -> None:
    """Refuse what is no list of boxes inside the image; a bug of ours, not of the user."""
    for box in boxes:
        inside = 0 <= box.top < box.bottom <= 1 and 0 <= box.left < box.right <= 1
        assert inside, f"not inside the image: {box}"


def _span(start: float, end: float, length: int) -> slice:
    first = min(_line(start * length), length - 1)
    return slice(first, max(_line(end * length), first + 1))


def _line(position: float) -> int:
    return math.ceil(round(position - 0.5, 6))  # 1/3 of 6 cells may come as 2.0000000001
