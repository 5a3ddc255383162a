"""Charts as inline SVG: they take the page's colors, stay sharp, and need no library.

A row of the table has one color everywhere, ``var(--c0)`` … ``var(--c6)`` of report.css (the
color-blind-safe set of Okabe and Ito); from the eighth row on, lines are also dashed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from semimedref.results.table import Score

COLORS = 7
_DASHES = ("", "6 3", "2 3")
_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 12, 40
_FOREST = 190  # width of a forest plot in pixels
_FOREST_HEIGHT = 30
_SIDE = 14  # room left and right of its scale


@dataclass(frozen=True)
class Line:
    """The validation score of one run: (epoch, fraction) pairs."""

    row: int
    seed: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels, with round tick values inside its range."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value lies, in pixels."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether a value lies on the scale."""
        return self.low <= value <= self.high

    def ticks(self, count: int) -> list[float]:
        """About ``count`` round values between low and high."""
        raw = (self.high - self.low) / count
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def color(row: int) -> str:
    """The CSS color of a table row."""
    return f"var(--c{row % COLORS})"


def curves(
    lines: Sequence[Line], *, title: str, rows: Sequence[str], high: float, score: str = "Dice"
) -> str:
    """Learning curves of one column: thin lines are seeds, the thick line is their mean.

    Args:
        lines: the runs of this column.
        title: what the column is, for those who cannot see the picture.
        rows: labels of the rows.
        high: upper end of the vertical scale, the same in all columns (fraction).
        score: what is drawn.
    """
    last = max((line.points[-1][0] for line in lines), default=1.0)
    x = Scale(0, max(last, 2.0), _LEFT, _WIDTH - _RIGHT)
    y = Scale(0, 100 * high, _HEIGHT - _BOTTOM, _TOP)
    parts = [_axes(x, y)]
    for row in sorted({line.row for line in lines}):
        mine = [line for line in lines if line.row == row]
        dash = _DASHES[row // COLORS % len(_DASHES)]
        thick = 'class="mean"' if len(mine) > 1 else 'class="single"'
        for line in mine if len(mine) > 1 else ():
            parts.append(_path(line.points, x, y, f'class="seed" {_stroke(row, dash)}'))
        parts.append(_path(mean_curve(mine), x, y, f"{thick} {_stroke(row, dash)}"))
    label = f"Validation {score} in percent by epoch, {title}. {_ends(lines, rows)}"
    return (
        f'<svg class="curves" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(parts)}</svg>'
    )


def mean_curve(lines: Sequence[Line]) -> tuple[tuple[float, float], ...]:
    """Mean over the runs, at the epochs that all of them have reached."""
    tables = [dict(line.points) for line in lines]
    shared = [epoch for epoch in tables[0] if all(epoch in table for table in tables)]
    return tuple((e, statistics.fmean(table[e] for table in tables)) for e in sorted(shared))


def forest_scale(scores: Sequence[Score], oracles: Sequence[float]) -> Scale | None:
    """One scale for every interval of a table; an oracle far away would only squeeze them."""
    values = [100 * value for score in scores for value in (*score.values, *(score.ci or ()))]
    if not values:
        return None
    low, high = min(values), max(values)
    width = high - low
    near = [100 * value for value in oracles if low - width <= 100 * value <= high + width]
    low, high = min([low, *near]), max([high, *near])
    pad = max(0.06 * (high - low), 0.5)
    return Scale(low - pad, high + pad, _SIDE, _FOREST - _SIDE)


def forest_axis(scale: Scale) -> str:
    """The scale's numbers, for the head of the table."""
    labels = "".join(
        f'<text x="{scale(tick):.1f}" y="12" text-anchor="middle">{tick:g}</text>'
        f'<line x1="{scale(tick):.1f}" x2="{scale(tick):.1f}" y1="16" y2="20"/>'
        for tick in scale.ticks(4)
    )
    return (
        f'<svg class="forest axis" width="{_FOREST}" height="20" aria-hidden="true">{labels}</svg>'
    )


def forest(score: Score, scale: Scale, *, row: int, oracles: Sequence[float]) -> str:
    """Mean (dot), interval (bar) and seeds (ticks) of one line; the oracle is a dashed line."""
    middle = _FOREST_HEIGHT / 2
    parts = [
        f'<line class="grid" x1="{scale(t):.1f}" x2="{scale(t):.1f}" y1="0" y2="{_FOREST_HEIGHT}"/>'
        for t in scale.ticks(4)
    ]
    for value in (value for value in oracles if scale.holds(100 * value)):
        at = f"{scale(100 * value):.1f}"
        parts.append(f'<line class="oracle" x1="{at}" x2="{at}" y1="0" y2="{_FOREST_HEIGHT}"/>')
    if score.ci:
        low, high = (f"{scale(100 * value):.1f}" for value in score.ci)
        parts.append(f'<line class="ci" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>')
    for value in score.values if score.n > 1 else ():
        at = f"{scale(100 * value):.1f}"
        parts.append(
            f'<line class="tick" x1="{at}" x2="{at}" y1="{middle - 7}" y2="{middle + 7}"/>'
        )
    if score.mean is not None:
        parts.append(f'<circle cx="{scale(100 * score.mean):.1f}" cy="{middle}" r="4"/>')
    return (
        f'<svg class="forest" width="{_FOREST}" height="{_FOREST_HEIGHT}" aria-hidden="true" '
        f'style="color:{color(row)}">{"".join(parts)}</svg>'
    )


def _axes(x: Scale, y: Scale) -> str:
    parts = []
    for tick in y.ticks(5):
        at = f"{y(tick):.1f}"
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
        )
        parts.append(f'<text x="{_LEFT - 7}" y="{at}" dy=".35em" text-anchor="end">{tick:g}</text>')
    for tick in x.ticks(6):
        if tick == round(tick):
            at, bottom = f"{x(tick):.1f}", _HEIGHT - _BOTTOM + 17
            parts.append(f'<text x="{at}" y="{bottom}" text-anchor="middle">{tick:g}</text>')
    parts.append(
        f'<text class="unit" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">epoch</text>'
    )
    return "".join(parts)


def _path(points: Sequence[tuple[float, float]], x: Scale, y: Scale, attributes: str) -> str:
    if len(points) == 1:
        (epoch, value) = points[0]
        return f'<circle cx="{x(epoch):.1f}" cy="{y(100 * value):.1f}" r="2.5" {attributes}/>'
    steps = " ".join(f"{x(epoch):.1f},{y(100 * value):.1f}" for epoch, value in points)
    return f'<polyline points="{steps}" {attributes}/>'


def _stroke(row: int, dash: str) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'style="stroke:{color(row)}"{dashed}'


def _ends(lines: Sequence[Line], rows: Sequence[str]) -> str:
    """The last values in words."""
    words = []
    for row in sorted({line.row for line in lines}):
        ends = [100 * line.points[-1][1] for line in lines if line.row == row]
        words.append(f"{rows[row]} ends at {statistics.fmean(ends):.1f}")
    return "; ".join(words) + "."
