"""The history of a search: every trial's value by number, and the best so far."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results.figure import style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.figure.scores import metric_name
from semimedref.search.record import Trial
from semimedref.search.settings import Objective
from semimedref.search.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_TALL = 2.2  # inches of a panel


def history(view: View) -> Figure:
    """The figure; a panel for each objective."""
    trials = [t for t in view.study.trials if t.values]
    if not trials:
        raise UserError(f"no trial is finished: `semimedref train -m {view.words}`")
    count = {state: view.study.count(state) for state in ("done", "stopped", "failed")}
    return Figure(
        title=f"History: {view.search.title}",
        caption=(
            f"Objectives of {len(view.study.trials)} trials by number, on validation images: "
            f"{count['done']} finished (filled), {count['stopped']} stopped early (open "
            f"triangles, the best that they had reached), {count['failed']} failed (not drawn). "
            "The line is the best finished trial so far."
        ),
        table=_numbers(view),
        sources=sorted({t.run for t in trials}),
        draw=partial(_draw, view),
    )


def scaled(objective: Objective, value: float) -> float:
    """A validation score in percent, a cost as it is."""
    return 100 * value if objective.key.startswith("val/") else value


def axis_label(objective: Objective) -> str:
    """What stands at an axis."""
    kind, _, name = objective.key.partition("/")
    return f"validation {metric_name(name)}, %" if kind == "val" else name.replace("_", " ")


def _numbers(view: View) -> list[list[Cell]]:
    objectives = view.search.objectives
    heads = [h for one in objectives for h in (one.key, f"best {one.key}")]
    lines: list[list[Cell]] = [["trial", "state", *heads, *view.search.space]]
    best: dict[str, float] = {}
    for trial in view.study.trials:
        cells: list[Cell] = []
        for i, one in enumerate(objectives):
            value = trial.values[i] if trial.values else None
            known = best.get(one.key)
            if trial.state == "done" and value is not None:
                best[one.key] = value if known is None or one.better(value, known) else known
            reached = best.get(one.key)
            cells += [
                None if value is None else scaled(one, value),
                None if reached is None else scaled(one, reached),
            ]
        params = [trial.params.get(key) for key in view.search.space]
        lines.append([trial.number, trial.state, *cells, *params])
    return lines


def _draw(view: View) -> Canvas:
    objectives = view.search.objectives
    figure, axes = style.canvas(
        len(objectives), 1, width=style.PAGE, height=_TALL * len(objectives), sharex=True
    )
    table = _numbers(view)[1:]
    for i, (ax, one) in enumerate(zip(axes, objectives, strict=True)):
        _panel(ax, view.study.trials, one=one, place=i)
        line = [(row[0], row[3 + 2 * i]) for row in table if row[3 + 2 * i] is not None]
        ax.step(
            [x for x, _ in line], [y for _, y in line], where="post", color=style.COLORS[1],
            label="best so far",
        )  # fmt: skip
        ax.set_ylabel(axis_label(one))
        ax.grid(axis="y")
    axes[-1].set_xlabel("trial")
    style.legend_below(figure, axes[0], columns=3)
    return figure


def _panel(ax: Axes, trials: list[Trial], *, one: Objective, place: int) -> None:
    for state, look in (
        ("done", {"marker": "o", "label": "finished"}),
        ("stopped", {"marker": "v", "markerfacecolor": "none", "label": "stopped early"}),
    ):
        shown = [t for t in trials if t.state == state and t.values]
        if shown:
            ax.plot(
                [t.number for t in shown], [scaled(one, t.values[place]) for t in shown],
                linestyle="none", color=style.COLORS[0], **look,
            )  # fmt: skip
