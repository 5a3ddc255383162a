"""How figures look: print sizes, letters, and marks that differ in gray too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from semimedref.results.lettering import font, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8.5 * CM, 17.5 * CM  # widths of one and of two columns in print
SIZE = 8  # points
SMALL = 7
_TINT = 0.6  # of a bar's color
INK, MUTED, GRID = "#1c2026", "#6b727b", "#dcdfe3"

# Okabe and Ito's colors without yellow, which is too light for lines on paper.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (6, 1.2, 1.2, 1.2, 1.2, 1.2)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "----", "ooo")

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same letters everywhere
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "hatch.color": "black",
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.fonttype": "none",  # letters stay letters: found by a search, read aloud
    "svg.hashsalt": "semimedref",  # names inside the file do not change from run to run
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "figure.dpi": 100,
}


def line_style(number: int) -> dict[str, Any]:
    """Color, marker and dashes of the n-th line; marker and dashes together never repeat soon."""
    return {
        "color": COLORS[number % len(COLORS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def bar_style(number: int) -> dict[str, Any]:
    """Color and hatch of the n-th group of bars."""
    return {
        "facecolor": _lighter(COLORS[number % len(COLORS)]),  # so that the hatch shows
        "hatch": HATCHES[number % len(HATCHES)],
        "edgecolor": INK,
        "linewidth": 0.6,
    }


def _lighter(color: str) -> tuple[float, ...]:
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(_TINT * part + 1 - _TINT for part in parts)


def canvas(
    rows: int,
    columns: int,
    *,
    width: float,
    height: float,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Canvas, list[Axes]]:
    """A figure of a size in inches with its axes, row by row, and no global state."""
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, list(itertools.chain.from_iterable(axes))


def legend_below(figure: Canvas, ax: Axes, *, columns: int) -> None:
    """The legend of an axes under the whole figure."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=3.2)


def wrapped(text: str, inches: float, *, size: float = SIZE, bold: bool = False) -> list[str]:
    """A text in lines of at most this width, measured in the figure's own letters."""
    scale = 10  # measured large: widths of small letters are rounded
    return wrap(text, round(inches * 72 * scale), font(round(size * scale), bold))


def legend_columns(labels: Sequence[str], inches: float) -> int:
    """How many entries of a legend stand beside each other."""
    longest = max(font(SMALL * 10).getlength(label) for label in labels) / 720
    return max(1, min(len(labels), int(inches / (longest + 0.55))))
