"""Cells in aligned columns, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def grid(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """One line for each row: the first columns to the left, the others, numbers, to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    sides = ["<"] * left + [">"] * (len(widths) - left)
    return [
        "  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]
