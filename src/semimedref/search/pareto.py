"""The Pareto front of two objectives: trials that no other one beats in both."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results.figure import style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.search.front import best_trials
from semimedref.search.history import axis_label, scaled
from semimedref.search.record import Trial
from semimedref.search.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def pareto(view: View) -> Figure:
    """The figure: the second objective across, the first upwards."""
    objectives = view.search.objectives
    if len(objectives) != 2:
        raise UserError(f"the search has {len(objectives)} objectives, a front needs two")
    done = [t for t in view.study.trials if t.state == "done"]
    if not done:
        raise UserError(f"no trial is finished: `semimedref train -m {view.words}`")
    front = best_trials(done, objectives)
    return Figure(
        title=f"Pareto front: {view.search.title}",
        caption=(
            f"{len(done)} finished trials; the {len(front)} joined by a line are beaten in both "
            "objectives by no other, with the number of the trial. Scores on validation images; "
            "costs are counted, not timed."
        ),
        table=_numbers(view, done, front),
        sources=sorted({t.run for t in done}),
        draw=partial(_draw, view, done, front),
    )


def _numbers(view: View, done: list[Trial], front: list[Trial]) -> list[list[Cell]]:
    objectives, chosen = view.search.objectives, {t.number for t in front}
    lines: list[list[Cell]] = [
        ["trial", "on the front", *(one.key for one in objectives), *view.search.space]
    ]
    for trial in done:
        values = [scaled(one, v) for one, v in zip(objectives, trial.values or (), strict=True)]
        mark = "yes" if trial.number in chosen else "no"
        params = [trial.params.get(key) for key in view.search.space]
        lines.append([trial.number, mark, *values, *params])
    return lines


def _draw(view: View, done: list[Trial], front: list[Trial]) -> Canvas:
    up, across = view.search.objectives

    def place(trial: Trial) -> tuple[float, float]:
        first, second = trial.values or (0.0, 0.0)
        return scaled(across, second), scaled(up, first)

    figure, (ax,) = style.canvas(1, 1, width=style.PAGE, height=2.6)
    others = [place(t) for t in done if t not in front]
    ax.plot(
        [x for x, _ in others], [y for _, y in others], linestyle="none", marker="o",
        markerfacecolor="none", color=style.MUTED, label="other trials",
    )  # fmt: skip
    line = sorted((*place(t), t.number) for t in front)
    ax.plot(
        [x for x, _, _ in line], [y for _, y, _ in line], marker="s", color=style.COLORS[1],
        label="Pareto front",
    )  # fmt: skip
    for x, y, number in line:
        ax.annotate(
            str(number), (x, y), xytext=(3, 4), textcoords="offset points", fontsize=style.SMALL
        )
    ax.set_xlabel(axis_label(across))
    ax.set_ylabel(axis_label(up))
    ax.grid()
    style.legend_below(figure, ax, columns=2)
    return figure
