"""Label efficiency: a score against the share of labeled images, a line for each row."""

from __future__ import annotations

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

_DODGE = 1.015  # seeds of neighboring lines stand beside each other
_EDGE = 1.15  # room left and right of the shares
_TALL = 2.1  # inches of a panel


@dataclass(frozen=True)
class Point:
    """A row at one labeled share; percent."""

    share: float
    mean: float
    seeds: tuple[float, ...]


Panels = dict[str, dict[str, list[Point]]]  # other columns -> row -> points by share


def label_efficiency(table: Table) -> Figure:
    """The figure of a table with several ratios."""
    panels = read(table)
    metric = scores.main_metric(table)
    used = [entry for entry in table.entries if scores.score_of(entry, metric).n]
    name = scores.metric_name(metric)
    return Figure(
        title=f"Label efficiency: {table.title}",
        caption=(
            f"{name} on the test set against the share of labeled training images (logarithmic "
            f"axis). Lines join the means over {scores.seeds_in_words(used, metric)}; small marks "
            "are single seeds, and bands reach from the lowest to the highest seed."
        ),
        table=_numbers(panels),
        sources=scores.sources(used),
        draw=partial(_draw, panels, table.rows, scores.label(metric)),
    )


def read(table: Table) -> Panels:
    """The points of every row, by what stands in the other columns."""
    scores.require_results(table)
    metric, panels = scores.main_metric(table), Panels()
    for entry in table.entries:
        score = scores.score_of(entry, metric)
        if score.mean is None:
            continue
        point = Point(_share(entry), 100 * score.mean, tuple(100 * v for v in score.values))
        panels.setdefault(_others(table, entry), {}).setdefault(entry.row, []).append(point)
    shares = {p.share for rows in panels.values() for points in rows.values() for p in points}
    if len(shares) < 2:
        raise UserError(
            f"label efficiency needs two labeled shares, found {len(shares)}: add ratios to the "
            f"experiment, `semimedref train -m experiment={table.name} ratio=2pct,15pct`"
        )
    for rows in panels.values():
        for points in rows.values():
            points.sort(key=lambda point: point.share)
    return panels


def _share(entry: Entry) -> float:
    ratio = entry.runs[0].cell.config["ratio"]
    return 100 * float(ratio["fraction"])


def _others(table: Table, entry: Entry) -> str:
    pairs = zip(table.columns, entry.column, strict=True)
    return scores.column_name([value for name, value in pairs if name != "ratio"])


def _numbers(panels: Panels) -> list[list[Cell]]:
    lines: list[list[Cell]] = [
        ["panel", "row", "labeled, %", "mean", "lowest", "highest", "n", "seeds"]
    ]
    for panel, rows in panels.items():
        for row, points in rows.items():
            for p in points:
                values = [round(v, 4) for v in (p.mean, min(p.seeds), max(p.seeds))]
                seeds = " ".join(f"{v:.4f}" for v in p.seeds)
                lines.append([panel, row, round(p.share, 6), *values, len(p.seeds), seeds])
    return lines


def _draw(panels: Panels, rows: list[str], unit: str) -> Canvas:
    shown = [row for row in rows if any(row in found for found in panels.values())]
    width = style.COLUMN if len(panels) == 1 else style.PAGE
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    across = style.legend_columns(shown, width)
    height = _TALL * lines + 0.5 + 0.16 * -(-len(shown) // across)
    figure, axes = style.canvas(lines, columns, width=width, height=height, sharey=True)
    ticks = sorted({p.share for found in panels.values() for ps in found.values() for p in ps})
    for ax, (name, found) in zip(axes, panels.items(), strict=False):
        for row, points in found.items():
            _line(ax, points, row, number=shown.index(row), of=len(shown))
        ax.set_xscale("log")
        ax.set_xlim(ticks[0] / _EDGE, ticks[-1] * _EDGE)  # one axis for all panels
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
        ax.grid(axis="y")
        ax.set_title(name, loc="left")
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[::columns]:
        ax.set_ylabel(unit)
    for ax in axes[max(0, len(panels) - columns) : len(panels)]:
        ax.set_xlabel("labeled images (%)")
    fullest = max(range(len(panels)), key=lambda i: len(list(panels.values())[i]))
    style.legend_below(figure, axes[fullest], columns=across)
    return figure


def _line(ax: Axes, points: list[Point], row: str, *, number: int, of: int) -> None:
    look = style.line_style(number)
    shift = _DODGE ** (number - (of - 1) / 2)
    x = [p.share * shift for p in points]
    ax.plot(x, [p.mean for p in points], label=row, **look)
    if any(len(p.seeds) > 1 for p in points):
        low, high = ([f(p.seeds) for p in points] for f in (min, max))
        ax.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    for at, point in zip(x, points, strict=True):
        if len(point.seeds) > 1:
            ax.plot(
                [at] * len(point.seeds), point.seeds, linestyle="none", marker=look["marker"],
                color=look["color"], markersize=2, markerfacecolor="white",
                markeredgewidth=0.6, zorder=1.5,
            )  # fmt: skip
