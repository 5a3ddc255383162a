"""Bars of what a run loses, and how much it changes, when words are taken away."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semimedref.results.figure import bars, panels, scores, style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.figure.measured import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_SCORES = {
    "drop_per_image": "Dice drop (points)",
    "inconsistency": "inconsistency (%)",
}


def interventions(found: Sequence[Measured]) -> Figure:
    """The figure of ``semimedref analyze interventions``."""
    first = found[0].numbers
    return Figure(
        title="Text interventions",
        caption=(
            "What a trained run loses when only the sentence changes: positional phrases masked, "
            "fuzzed or removed, and as many other words masked as a control (non-position). Left: "
            "drop of Dice, mean over images. Right: 100 minus the mean Dice between the "
            f"predictions for both sentences. {first['images']} images of {first['patients']} "
            "patients; bars are 95 % bootstrap intervals over patients."
        ),
        table=_numbers(found),
        sources=[m.source for m in found],
        draw=partial(_draw, found),
    )


def _numbers(found: Sequence[Measured]) -> list[list[Cell]]:
    head = ["run", "intervention"]
    for title in ("Dice drop", "inconsistency"):
        head += [title, f"{title}, CI low", f"{title}, CI high"]
    lines: list[list[Cell]] = [list(head)]
    for m in found:
        for arm, row in m.numbers["interventions"].items():
            values = [v for key in _SCORES for v in (row[key], *row[f"{key}_ci"])]
            lines.append([m.name, arm, *(scores.percent(v) for v in values)])
    return lines


def _draw(found: Sequence[Measured]) -> Canvas:
    wide = len(found) > 1
    width = style.PAGE if wide else style.COLUMN
    down, across = (1, 2) if wide else (2, 1)
    names = [m.name for m in found]
    columns = style.legend_columns(names, width)
    height = 1.75 * down + (0.15 + 0.16 * -(-len(names) // columns) if wide else 0.1)
    figure, axes = style.canvas(down, across, width=width, height=height)
    arms = list(found[0].numbers["interventions"])
    for ax, (key, title) in zip(axes, _SCORES.items(), strict=True):
        for number, m in enumerate(found):
            rows = [m.numbers["interventions"][arm] for arm in arms]
            ends = [(100 * r[f"{key}_ci"][0], 100 * r[f"{key}_ci"][1]) for r in rows]
            values = [100 * r[key] for r in rows]
            bars.group(ax, values, ends, label=m.name, number=number, of=len(found))
        bars.name_groups(ax, arms, width / across - 0.5)
        ax.axhline(0, color=style.INK, lw=0.6)
        ax.set_ylabel(title)
    if wide:
        style.legend_below(figure, axes[0], columns=columns)
    return figure


def readings(
    *,
    image: np.ndarray,
    truth: np.ndarray,
    predictions: dict[str, np.ndarray],
    texts: dict[str, str],
    dice: dict[str, float],
    source: str,
) -> Figure:
    """One image with the mask that each sentence gives; dice by the name of the sentence."""
    gray = np.clip(np.round(image), 0, 255).astype(np.uint8)
    line: list[panels.Picture | str] = [panels.Picture(gray, truth, truth)]
    line += [panels.Picture(gray, truth, m, foot=texts[n]) for n, m in predictions.items()]
    rows: list[list[Cell]] = [["sentence", "text", "Dice"]]
    rows += [[name, texts[name], scores.percent(value)] for name, value in dice.items()]
    return Figure(
        title="One image read in every way",
        caption=(
            "The image whose loss by removal is the median of its split, with the mask "
            f"that each sentence gives. {panels.COLORS_IN_WORDS}"
        ),
        table=rows,
        sources=[source],
        draw=partial(panels.grid, ["truth", *predictions], [line], legend=True),
    )
