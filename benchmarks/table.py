"""Comparisons as an aligned text table."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Comparison

_HEAD = ("benchmark", "case", "ours", "obvious", "ours ms", "obvious ms", "ratio", "range", "n")
_WORDS = 4  # so many columns are words, aligned left; the others are numbers


def render(rows: Sequence[Comparison]) -> str:
    """The table, then the notes."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    lines = [
        "  ".join(
            text.ljust(width) if i < _WORDS else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"{row.benchmark}, {row.case}: {row.note}" for row in rows if row.note]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _cells(row: Comparison) -> tuple[str, ...]:
    return (
        row.benchmark,
        row.case,
        row.ours,
        row.obvious,
        _short(1000 * row.ours_seconds),
        _short(1000 * row.obvious_seconds),
        _short(row.ratio),
        f"{_short(row.ratio_low)} - {_short(row.ratio_high)}",
        str(row.repeats),
    )


def _short(value: float) -> str:
    """Three significant digits, never an exponent."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.995 else 3
    return f"{value:,.{digits}f}"
