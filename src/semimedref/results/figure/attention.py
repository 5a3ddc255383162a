"""Attention over the words of the sentence: enrichment by stage, and one sentence word by word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semimedref.results.figure import bars, scores, style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.figure.measured import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


def attention(found: Sequence[Measured]) -> Figure:
    """The figure of ``semimedref analyze attention``."""
    last = found[-1]
    example = last.numbers.get("example")
    below = (
        f" Below: attention of {last.name} to each word of the first sentence that names a "
        "position, by stage, over the report's tokens; positional words are bold and framed."
        if example
        else ""
    )
    return Figure(
        title="Attention to positional words",
        caption=(
            "Enrichment of positional words in each fusion stage: their share of the attention, "
            "which image tokens pay to the report, over their share of the tokens; 1 (dashed) is "
            f"no preference. Mean over {last.numbers['images_with_positional_words']} images; bars "
            f"are 95 % bootstrap intervals over patients.{below}"
        ),
        table=_numbers(found),
        sources=[m.source for m in found],
        draw=partial(_draw, found, example),
    )


def _numbers(found: Sequence[Measured]) -> list[list[Cell]]:
    head = ["run", "fusion", "enrichment", "CI low", "CI high", "attention, %", "tokens, %"]
    lines: list[list[Cell]] = [list(head)]
    for m in found:
        for stage, row in m.numbers["stages"].items():
            values = [round(v, 5) for v in (row["enrichment"], *row["enrichment_ci"])]
            shares = [scores.percent(row[key]) for key in ("attention_share", "token_share")]
            lines.append([m.name, stage, *values, *shares])
    return lines


def _draw(found: Sequence[Measured], example: dict[str, Any] | None) -> Canvas:
    width = style.PAGE if example or len(found) > 3 else style.COLUMN
    names = [m.name for m in found]
    columns = style.legend_columns(names, width)
    legend = 0.15 + 0.16 * -(-len(names) // columns) if len(found) > 1 else 0
    height = 1.7 + legend + (2.0 if example else 0)
    figure, axes = style.canvas(2 if example else 1, 1, width=width, height=height)
    stages = list(found[0].numbers["stages"])
    for number, m in enumerate(found):
        rows = [m.numbers["stages"][stage] for stage in stages]
        ends = [(r["enrichment_ci"][0], r["enrichment_ci"][1]) for r in rows]
        values = [r["enrichment"] for r in rows]
        bars.group(axes[0], values, ends, label=m.name, number=number, of=len(found))
    bars.name_groups(axes[0], stages, width - 0.5)
    axes[0].axhline(1, color=style.INK, lw=0.8, ls="--")
    axes[0].set_ylabel("enrichment")
    if example:
        _words(axes[1], example)
        figure.colorbar(axes[1].images[0], ax=axes[1], label="share of attention", pad=0.01)
    if len(found) > 1:
        style.legend_below(figure, axes[0], columns=columns)
    return figure


def _words(ax: Axes, example: dict[str, Any]) -> None:
    """Stages as lines, words as columns: the darker, the more attention."""
    from matplotlib.patches import Rectangle

    heat = np.array(example["heat"])
    ax.imshow(heat, cmap="Greys", vmin=0, aspect="auto", interpolation="none")
    ax.set_xticks(range(heat.shape[1]), example["words"], rotation=45, ha="right",
                  rotation_mode="anchor")  # fmt: skip
    ax.set_yticks(range(len(heat)), [f"stage {k + 1}" for k in range(len(heat))])
    ax.tick_params(length=0)
    for at, (tick, says) in enumerate(
        zip(ax.get_xticklabels(), example["positional"], strict=True)
    ):
        if says:
            tick.set(color=style.COLORS[1], weight="bold")
            ax.add_patch(
                Rectangle((at - 0.5, -0.5), 1, len(heat), fill=False, ec=style.COLORS[1], lw=1)
            )
