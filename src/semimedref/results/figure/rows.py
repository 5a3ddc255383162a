"""Forest plot of any table: each row's score with its interval, a panel for each column value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from semimedref.results.figure import scores, style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.table import Entry, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_LINE = 0.19  # inches of a row
_LABEL = 1.35  # inches for the names of rows
_ACROSS = 4  # panels beside each other


def rows(table: Table) -> Figure:
    """The figure of a table's main score."""
    scores.require_results(table)
    metric = scores.main_metric(table)
    used = [entry for entry in table.entries if scores.score_of(entry, metric).n]
    interval = any(scores.score_of(entry, metric).ci for entry in used)
    bars = f"Bars are {scores.INTERVAL}." if interval else "There are no intervals for this score."
    told = [entry.reported[metric] for entry in table.entries if metric in entry.reported]
    if told:
        bars += " Open diamonds are the paper's reported values"
        apart = any(value.family == "other" for value in told)
        bars += ", crosses those of another metric family." if apart else "."
    return Figure(
        title=f"{scores.metric_name(metric)}: {table.title}",
        caption=(
            f"{scores.metric_name(metric)} on the test set, mean over "
            f"{scores.seeds_in_words(used, metric)} (large marks) and single seeds (small "
            f"marks). {bars} Rows without a mark are not trained yet."
        ),
        table=_numbers(table, metric),
        sources=scores.sources(used),
        draw=partial(_draw, table, metric),
    )


def _numbers(table: Table, metric: str) -> list[list[Cell]]:
    head = ["row", *table.columns, "mean", "std", "n", "CI low", "CI high", "seeds",
            "reported"]  # fmt: skip
    lines: list[list[Cell]] = [list(head)]
    for entry in table.entries:
        score = scores.score_of(entry, metric)
        values = [scores.percent(score.mean), scores.percent(score.std), score.n]
        seeds = " ".join(f"{100 * v:.4f}" for v in score.values)
        told = entry.reported[metric].value if metric in entry.reported else None
        lines.append([entry.row, *entry.column, *values, *scores.ends(score), seeds, told])
    return lines


def _draw(table: Table, metric: str) -> Canvas:
    groups, names = table.groups, table.rows
    across = min(len(groups), _ACROSS)
    down = -(-len(groups) // across)
    width = style.COLUMN if across == 1 else style.PAGE
    labels = ["\n".join(style.wrapped(name, _LABEL, size=style.SMALL)) for name in names]
    tall = sum(max(1.0, 0.72 * (text.count("\n") + 1)) for text in labels) * _LINE + 0.55
    figure, axes = style.canvas(
        down, across, width=width, height=down * tall + 0.1, sharex=True, sharey=True
    )
    for ax, (column, entries) in zip(axes, groups, strict=False):
        _panel(ax, entries, names, metric=metric)
        ax.set_title(scores.column_name(column), loc="left")
        ax.set_yticks(range(len(names)), labels)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.grid(axis="x")
    for ax in axes[len(groups) :]:
        ax.set_visible(False)
    figure.supxlabel(scores.label(metric), fontsize=style.SIZE)
    return figure


def _panel(ax: Axes, entries: Sequence[Entry], names: Sequence[str], *, metric: str) -> None:
    for entry in entries:
        score, y = scores.score_of(entry, metric), names.index(entry.row)
        if metric in entry.reported:
            told = entry.reported[metric]
            ax.plot(
                [told.value], [y], linestyle="none", marker="x" if told.family == "other" else "D",
                color=style.MUTED, markerfacecolor="none", markersize=4, markeredgewidth=0.8,
            )  # fmt: skip
        if score.mean is None:
            continue
        look = style.line_style(names.index(entry.row))
        if score.ci:
            ax.plot([100 * v for v in score.ci], [y, y], color=look["color"], lw=1.2)
        if score.n > 1:
            ax.plot(
                [100 * v for v in score.values], [y] * score.n, linestyle="none", marker="|",
                color=style.INK, markersize=8, markeredgewidth=0.7,
            )  # fmt: skip
        ax.plot(
            [100 * score.mean], [y], linestyle="none", markersize=4.5, marker=look["marker"],
            color=look["color"],
        )  # fmt: skip
