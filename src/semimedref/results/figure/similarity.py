"""Similarity of images and sentences by positional overlap, a panel for each run (PACL, CLIP)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semimedref.results.figure import style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.figure.measured import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

OVERLAPS = ("same", "partial", "none")
_WORDS = {"same": "same regions", "partial": "some shared", "none": "none shared"}
_STEPS = 40  # of a curve over the range of all pairs
_PERCENTILES = ("5 %", "25 %", "median", "75 %", "95 %")


def similarity(found: Sequence[Measured]) -> Figure:
    """The figure of ``semimedref analyze alignment``."""
    sizes = {m.numbers["images"] for m in found}
    images = " or ".join(map(str, sorted(sizes)))
    statistics = "; ".join(
        f"{m.name}: {100 * m.numbers['ordered_queries']:.1f} % ordered queries, Spearman "
        f"{m.numbers['spearman']:.3f}"
        for m in found
    )
    return Figure(
        title="Similarity by positional overlap",
        caption=(
            "Cosine similarity of images and sentences in the common space, over all pairs of "
            f"{images} images, by the overlap of the regions that the two sentences name: the "
            "same, some of the same, none of the same. Curves are densities; below them the thick "
            "bar holds the middle half of the pairs, the thin one 90 %, and the mark is the mean. "
            f"{statistics}."
        ),
        table=_numbers(found),
        sources=[m.source for m in found],
        draw=partial(_draw, found),
    )


def _numbers(found: Sequence[Measured]) -> list[list[Cell]]:
    lines: list[list[Cell]] = [["run", "overlap", "pairs", "mean", *_PERCENTILES]]
    for m in found:
        for kind in OVERLAPS:
            ends = [round(v, 5) for v in m.numbers["percentiles"][kind]]
            mean = round(m.numbers["means"][kind], 5)
            lines.append([m.name, kind, m.numbers["pairs"][kind], mean, *ends])
    return lines


def _draw(found: Sequence[Measured]) -> Canvas:
    across = min(len(found), 3)
    down = -(-len(found) // across)
    width = style.COLUMN if across == 1 else style.PAGE
    figure, axes = style.canvas(
        down, across, width=width, height=2.15 * down + 0.3, sharex=True, sharey=True
    )
    low, high = _range(found)
    joined = max(1, round((high - low) / _STEPS / _bin(found[0])))
    top = max(_density(m, kind, joined)[0].max() for m in found for kind in OVERLAPS)
    for ax, m in zip(axes, found, strict=False):
        _panel(ax, m, top, joined=joined)
        ax.set_title(m.name, loc="left")
    for ax in axes[len(found) :]:
        ax.set_visible(False)
    axes[0].set_xlim(low, high)
    axes[0].set_ylim(-0.42 * top, 1.05 * top)
    for ax in axes[max(0, len(found) - across) : len(found)]:
        ax.set_xlabel("cosine similarity")
    for ax in axes[::across]:
        ax.set_ylabel("density")
    style.legend_below(figure, axes[0], columns=3)
    return figure


def _panel(ax: Axes, m: Measured, top: float, *, joined: int) -> None:
    for number, kind in enumerate(OVERLAPS):
        look = style.line_style(number)
        density, edges = _density(m, kind, joined)
        middle = (edges[1:] + edges[:-1]) / 2
        ax.plot(
            middle, density, color=look["color"], linestyle=look["linestyle"],
            label=_WORDS[kind], marker=look["marker"], markevery=[int(density.argmax())],
        )  # fmt: skip
        y = -(0.1 + 0.12 * number) * top
        low, first, _, third, high = m.numbers["percentiles"][kind]
        ax.plot([low, high], [y, y], color=look["color"], lw=0.8)
        ax.plot([first, third], [y, y], color=look["color"], lw=3.2, solid_capstyle="butt")
        ax.plot(
            [m.numbers["means"][kind]], [y], color=look["color"], linestyle="none",
            marker=look["marker"], markeredgecolor="white", markersize=5,
        )  # fmt: skip
    ax.axhline(0, color=style.MUTED, lw=0.5)
    ticks = [t for t in ax.get_yticks() if t >= 0]
    ax.set_yticks(ticks)


def _density(m: Measured, kind: str, joined: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The histogram of a kind of pairs with some neighboring bins joined, and its edges."""
    counts = np.array(m.numbers["histogram"][kind], dtype=np.float64)
    edges = np.array(m.numbers["histogram"]["edges"], dtype=np.float64)
    starts = np.arange(0, len(counts), joined)
    counts = np.add.reduceat(counts, starts)
    edges = np.append(edges[starts], edges[-1])
    return counts / counts.sum() / np.diff(edges), edges


def _bin(m: Measured) -> float:
    first, second, *_ = m.numbers["histogram"]["edges"]
    return float(second - first)


def _range(found: Sequence[Measured]) -> tuple[float, float]:
    """Where anything lies, with a little room."""
    used = []
    for m in found:
        for kind in OVERLAPS:
            density, edges = _density(m, kind)
            at = np.flatnonzero(density)
            used += [edges[at[0]], edges[at[-1] + 1]]
    room = 0.03 * (max(used) - min(used))
    return min(used) - room, max(used) + room
