"""Sensitivity: a panel for each factor, the score against its values, the default marked.

Rows of such a table are called ``factor = value``. The default is the experiment's own
configuration, which all factors share: its run may stand in several rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results.figure import scores, style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.table import Entry, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from semimedref.sweep import Experiment

_ROW = re.compile(r"^\s*(?P<factor>[^=]+?)\s*=\s*(?P<value>.+?)\s*(?P<default>\(default\))?\s*$")
_LOG_FROM = 3.5  # largest over smallest value: from here on the axis is logarithmic
_ACROSS, _TALL = 3, 1.65  # panels beside each other, inches of one


@dataclass(frozen=True)
class Setting:
    """One value of a factor; entries are its lines of the table, one for each column value."""

    factor: str
    value: str
    default: bool
    entries: tuple[Entry, ...]


def sensitivity(table: Table, defaults: Callable[[], frozenset[str]] = frozenset) -> Figure:
    """The figure of a table whose rows are settings of factors.

    Args:
        table: with rows ``factor = value``.
        defaults: gives the signatures of the default; without, it is the run that rows share.
    """
    factors = read(table, defaults)
    metric = scores.main_metric(table)
    used = [e for settings in factors.values() for s in settings for e in s.entries]
    used = [entry for entry in used if scores.score_of(entry, metric).n]
    name = scores.metric_name(metric)
    known = any(s.default for settings in factors.values() for s in settings)
    marked = "A gray stripe marks the default setting. " if known else ""
    return Figure(
        title=f"Sensitivity: {table.title}",
        caption=(
            f"{name} on the test set when one factor is changed and all others stay at their "
            f"defaults, mean over {scores.seeds_in_words(used, metric)}. {marked}"
            f"Bars are {scores.INTERVAL}. Axes of values that span a factor of {_LOG_FROM:g} or "
            "more are logarithmic; settings that are no numbers stand side by side unjoined."
        ),
        table=_numbers(factors, metric, table.columns),
        sources=scores.sources(used),
        draw=partial(_draw, factors, metric),
    )


def read(
    table: Table, defaults: Callable[[], frozenset[str]] = frozenset
) -> dict[str, list[Setting]]:
    """Settings by factor, in the table's order."""
    scores.require_results(table)
    found = {row: match for row in table.rows if (match := _ROW.match(row))}
    factors = Counter(match["factor"] for match in found.values())
    if not any(count > 1 for count in factors.values()):
        raise UserError(
            f"sensitivity needs rows called 'factor = value', two or more of a factor: "
            f"{table.name} has {', '.join(repr(row) for row in table.rows[:4])}"
        )
    entries = {row: tuple(e for e in table.entries if e.row == row) for row in found}
    default = defaults()
    if default.isdisjoint(sig for group in entries.values() for sig in _signatures(group)):
        default = _shared(entries)
    settings: dict[str, list[Setting]] = {}
    for row, match in found.items():
        marked = bool(match["default"]) or not default.isdisjoint(_signatures(entries[row]))
        setting = Setting(match["factor"], match["value"], marked, entries[row])
        settings.setdefault(match["factor"], []).append(setting)
    return settings


def numbers_of(settings: Sequence[Setting]) -> list[float] | None:
    """The values as numbers; None where one of them is none."""
    try:
        return [float(s.value) for s in settings]
    except ValueError:
        return None


def default_signatures(experiment: Experiment) -> frozenset[str]:
    """Signatures of the experiment's own configuration, without what a row changes."""
    from semimedref import config

    points = {tuple(cell.point.items()) for cell in experiment.cells}
    found = set()
    for point in sorted(points):
        named = {key for key, _ in point}
        kept = [o for o in experiment.overrides if o.split("=", 1)[0] not in named]
        composed = config.compose([*kept, *(f"{key}={value}" for key, value in point)])
        found.add(config.signature(config.resolved(composed)))
    return frozenset(found)


def _shared(entries: dict[str, tuple[Entry, ...]]) -> frozenset[str]:
    """The signatures that stand in most rows, if that is more than one."""
    counts = Counter(s for group in entries.values() for s in _signatures(group))
    most = max(counts.values(), default=0)
    return frozenset(s for s, n in counts.items() if n == most and most > 1)


def _signatures(entries: Sequence[Entry]) -> set[str]:
    return {run.cell.signature for entry in entries for run in entry.runs}


def _numbers(
    factors: dict[str, list[Setting]], metric: str, columns: Sequence[str]
) -> list[list[Cell]]:
    head = ["factor", "value", "default", *columns, "mean", "std", "n", "CI low", "CI high"]
    lines: list[list[Cell]] = [list(head)]
    for setting in (s for settings in factors.values() for s in settings):
        for entry in setting.entries:
            score = scores.score_of(entry, metric)
            spread = [scores.percent(score.mean), scores.percent(score.std), score.n]
            start = [setting.factor, setting.value, "yes" if setting.default else "no"]
            lines.append([*start, *entry.column, *spread, *scores.ends(score)])
    return lines


def _draw(factors: dict[str, list[Setting]], metric: str) -> Canvas:
    columns = list(dict.fromkeys(e.column for s in factors.values() for x in s for e in x.entries))
    across = min(len(factors), _ACROSS)
    down = -(-len(factors) // across)
    width = style.COLUMN if across == 1 else style.PAGE
    height = down * _TALL + 0.25 + (0.2 if len(columns) > 1 else 0)
    figure, axes = style.canvas(down, across, width=width, height=height, sharey=True)
    for ax, (factor, settings) in zip(axes, factors.items(), strict=False):
        places = _axis(ax, settings)
        for number, column in enumerate(columns):
            _line(ax, settings, places, column=column, number=number, metric=metric)
        for place, setting in zip(places, settings, strict=True):
            if setting.default:
                ax.axvline(place, color=style.GRID, lw=7, zorder=0, gid="default")
        ax.set_title(factor, loc="left")
        ax.grid(axis="y")
    for ax in axes[len(factors) :]:
        ax.set_visible(False)
    for ax in axes[::across]:
        ax.set_ylabel(scores.label(metric))
    if len(columns) > 1:
        style.legend_below(figure, axes[0], columns=min(4, len(columns)))
    return figure


def _axis(ax: Axes, settings: Sequence[Setting]) -> list[float]:
    """Where the values of a factor stand; prepares the axis."""
    values = numbers_of(settings)
    if values is None:
        places = [float(i) for i in range(len(settings))]
        labels = ["\n".join(style.wrapped(s.value, 0.5, size=style.SMALL)) for s in settings]
        ax.set_xticks(places, labels)
        ax.set_xlim(-0.6, len(settings) - 0.4)
        return places
    if min(values) > 0 and max(values) / min(values) >= _LOG_FROM:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks(values, [s.value for s in settings])
    ax.margins(x=0.12)
    return values


def _line(
    ax: Axes,
    settings: Sequence[Setting],
    places: Sequence[float],
    *,
    column: tuple[str, ...],
    number: int,
    metric: str,
) -> None:
    """Mean, interval and seeds of every setting at one column value."""
    look = style.line_style(number)
    points = []
    for place, setting in zip(places, settings, strict=True):
        for entry in (e for e in setting.entries if e.column == column):
            score = scores.score_of(entry, metric)
            if score.mean is None:
                continue
            points.append((place, 100 * score.mean))
            if score.ci:
                ax.plot([place] * 2, [100 * v for v in score.ci], color=look["color"], lw=0.8)
    points.sort()
    if numbers_of(settings) is None:  # categories have no order: nothing lies between them
        look = look | {"linestyle": "none"}
    if points:
        ax.plot(*zip(*points, strict=True), label=scores.column_name(column), **look)
