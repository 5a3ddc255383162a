"""Lesion score and position overlap of what the patch-mixing strategies paste."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from semimedref.results.figure import bars, scores, style
from semimedref.results.figure.contract import Cell, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_DRAWN = {"lesion_score": "lesion score", "position_overlap": "position overlap"}
_LISTED = {
    **_DRAWN,
    "named_overlap": "in named regions",
    "gate_opens": "gate opens",
    "pasted": "samples pasted",
    "ambiguous": "unnamed blob",
}


def mixing(strategies: dict[str, dict[str, Any]], *, name: str, source: str) -> Figure:
    """The figure of ``semimedref analyze mixing``."""
    samples = next(iter(strategies.values()))["samples"]
    lines: list[list[Cell]] = [["strategy", "samples", *(f"{v}, %" for v in _LISTED.values())]]
    for strategy, row in strategies.items():
        values = [scores.percent(row[key]) for key in _LISTED]
        lines.append([strategy, row["samples"], *values])
    return Figure(
        title="Patch mixing",
        caption=(
            f"What four strategies would paste with the teacher of {name}, over {samples} "
            "unlabeled training images, before the lesion gate. Lesion score: mean teacher "
            "probability inside the patch. Position overlap: share of the patch inside the region "
            "that the donor's sentence points to. Means over patches; the same images and donors "
            "for all strategies, so there are no error bars."
        ),
        table=lines,
        sources=[source],
        draw=partial(_draw, strategies),
    )


def _draw(strategies: dict[str, dict[str, Any]]) -> Canvas:
    figure, (ax,) = style.canvas(1, 1, width=style.COLUMN, height=2.3)
    for number, (key, title) in enumerate(_DRAWN.items()):
        values = [100 * (row[key] or 0.0) for row in strategies.values()]
        drawn = bars.group(ax, values, None, label=title, number=number, of=len(_DRAWN))
        ax.bar_label(drawn, fmt="%.0f", fontsize=style.SMALL)
    bars.name_groups(ax, list(strategies), style.COLUMN - 0.5)
    ax.set(ylabel="percent", ylim=(0, 112))
    style.legend_below(figure, ax, columns=2)
    return figure
