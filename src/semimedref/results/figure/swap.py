"""Where the predicted mass is, with the sentence and with left and right exchanged in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semimedref.results.figure import panels, scores, style
from semimedref.results.figure.contract import Cell, Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_SHARES = {
    "crosses": "mass crosses the midline",
    "follows": "mass goes from the named side to the other",
    "on_named_side": "mass on the named side, sentence",
    "on_named_side_swapped": "mass on the named side, swapped sentence",
    "empty": "nothing predicted, sentence",
    "empty_swapped": "nothing predicted, swapped sentence",
}


@dataclass(frozen=True)
class Masses:
    """The cases of a swap: the named side, pixels left and right (N, 2) before and after."""

    named: Sequence[str]
    before: np.ndarray
    after: np.ndarray


@dataclass(frozen=True)
class Swapped:
    """An image read with its sentence and with the swapped one."""

    id: str
    image: np.ndarray
    truth: np.ndarray
    texts: tuple[str, str]
    predictions: tuple[np.ndarray, np.ndarray]


def swap(numbers: dict[str, Any], masses: Masses, *, source: str) -> Figure:
    """The figure of ``semimedref analyze swap``."""
    low, high = (100 * end for end in numbers["crosses_ci"])
    return Figure(
        title="Left and right swapped in the sentence",
        caption=(
            "Each mark is a case whose sentence names one side: share of the predicted pixels on "
            "the image's right with the sentence and with left and right exchanged. Circles say "
            "left, triangles say right; a run that follows the words has circles in the upper "
            f"left and triangles in the lower right. In {100 * numbers['crosses']:.1f} % "
            f"[{low:.1f}, {high:.1f}] of {numbers['cases']} cases the mass crosses the midline "
            "(95 % bootstrap interval over patients). Cases without a prediction are not drawn."
        ),
        table=_numbers(numbers),
        sources=[source],
        draw=partial(_draw, masses),
    )


def _numbers(numbers: dict[str, Any]) -> list[list[Cell]]:
    lines: list[list[Cell]] = [["share of the cases", "percent", "CI low", "CI high", "cases"]]
    for key, name in _SHARES.items():
        ends = [scores.percent(v) for v in numbers.get(f"{key}_ci", (None, None))]
        lines.append([name, scores.percent(numbers[key]), *ends, numbers["cases"]])
    return lines


def _draw(masses: Masses) -> Canvas:
    figure, (ax,) = style.canvas(1, 1, width=style.COLUMN, height=style.COLUMN)
    totals = [m.sum(1) for m in (masses.before, masses.after)]
    known = (totals[0] > 0) & (totals[1] > 0)
    shares = [m[:, 1] / np.maximum(m.sum(1), 1) for m in (masses.before, masses.after)]
    for number, (side, marker) in enumerate((("left", "o"), ("right", "^"))):
        chosen = known & (np.array(masses.named) == side)
        ax.plot(
            *(100 * share[chosen] for share in shares), linestyle="none", marker=marker,
            color=style.COLORS[number], markerfacecolor="none", markeredgewidth=0.7,
            label=f"sentence says {side}", clip_on=False,
        )  # fmt: skip
    ax.axhline(50, color=style.MUTED, lw=0.6)
    ax.axvline(50, color=style.MUTED, lw=0.6)
    ax.set(
        xlabel="mass on the right, sentence (%)",
        ylabel="mass on the right, swapped sentence (%)",
        xlim=(0, 100),
        ylim=(0, 100),
    )
    style.legend_below(figure, ax, columns=2)
    return figure


def examples(cases: Sequence[Swapped], *, source: str) -> Figure:
    """The image, the sentence's mask, and the mask after the exchange, a line for each case."""
    lines: list[panels.Line] = []
    rows: list[list[Cell]] = [
        ["case", "sentence", "pixels", "swapped sentence", "pixels, swapped", "true pixels"]
    ]
    for case in cases:
        first, second = case.predictions
        lines.append([
            panels.Picture(case.image),
            panels.Picture(case.image, case.truth, first),
            case.texts[0],
            panels.Picture(case.image, None, second),
            case.texts[1],
        ])  # fmt: skip
        counts = [int(first.sum()), int(second.sum()), int(case.truth.sum())]
        rows.append([case.id, case.texts[0], counts[0], case.texts[1], *counts[1:]])
    heads = ["image", "prediction", "sentence", "prediction, swapped", "swapped sentence"]
    return Figure(
        title="Cases with left and right swapped",
        caption=(
            f"The first {len(cases)} cases of the split whose sentence names one side, not chosen "
            f"by score: image, prediction, and prediction for the swapped sentence, which has no "
            f"truth and is yellow. {panels.COLORS_IN_WORDS}"
        ),
        table=rows,
        sources=[source],
        draw=partial(panels.grid, heads, lines, legend=True),
    )
