"""Which parameter matters: the share of the objective's variance that each explains (fANOVA)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results.figure import style
from semimedref.results.figure.contract import Cell, Figure
from semimedref.search.propose import distributions, frozen
from semimedref.search.settings import Objective
from semimedref.search.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_FEWEST = 5  # finished trials: fewer say nothing about a share
_BAR = 0.22  # inches


def importance(view: View) -> Figure:
    """The figure; bars by parameter, a group for each objective."""
    done = [t for t in view.study.trials if t.state == "done"]
    if len(done) < _FEWEST:
        raise UserError(f"{len(done)} trials are finished, expected {_FEWEST} or more")
    shares = {one.key: _shares(view, one) for one in view.search.objectives}
    keys = sorted(view.search.space, key=lambda k: -next(iter(shares.values())).get(k, 0.0))
    table: list[list[Cell]] = [["parameter", *(f"share of {key}" for key in shares)]]
    table += [[key, *(found.get(key, 0.0) for found in shares.values())] for key in keys]
    return Figure(
        title=f"Importance: {view.search.title}",
        caption=(
            f"Share of the variance of each objective that a parameter explains alone, by fANOVA "
            f"over {len(done)} finished trials (random forest, seed {view.search.seed}). Trials "
            "that stopped early are left out. The shares describe the ranges that were searched; "
            "with few trials they are rough."
        ),
        table=table,
        sources=sorted({t.run for t in done}),
        draw=partial(_draw, table),
    )


def _shares(view: View, objective: Objective) -> dict[str, float]:
    """The shares by fANOVA; an objective that never changes explains nothing."""
    import optuna

    place = view.search.objectives.index(objective)
    space = distributions(view.search.space)
    done = [t for t in view.study.trials if t.state == "done"]
    if len({t.values[place] for t in done if t.values}) < 2:
        return {}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = [one.direction for one in view.search.objectives]
    study = optuna.create_study(directions=directions)
    study.add_trials([frozen(trial, space) for trial in done])
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=view.search.seed)
    return optuna.importance.get_param_importances(
        study, evaluator=evaluator, target=lambda trial: trial.values[place]
    )


def _draw(table: list[list[Cell]]) -> Canvas:
    (_, *names), *lines = table
    figure, (ax,) = style.canvas(
        1, 1, width=style.PAGE, height=0.8 + _BAR * len(lines) * len(names)
    )
    high = 0.8 / len(names)
    for place, name in enumerate(names):
        at = [i + (place - (len(names) - 1) / 2) * high for i in range(len(lines))]
        look = style.bar_style(place)
        ax.barh(at, [line[1 + place] for line in lines], height=high, label=name, **look)
    ax.set_yticks(range(len(lines)), [str(line[0]) for line in lines])
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlabel("share of variance")
    ax.grid(axis="x")
    if len(names) > 1:
        style.legend_below(figure, ax, columns=len(names))
    return figure
