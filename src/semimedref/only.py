"""Which cells of a table a command is about: ``only=`` names numbers, rows, signatures or runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from semimedref import sweep
from semimedref.errors import UserError
from semimedref.sweep import Cell, Experiment


def select(cells: list[Cell], only: Any) -> list[Cell]:  # noqa: ANN401 - a number, label or list
    """The cells that ``only=`` names: numbers, row labels, signatures or folder names."""
    if only is None:
        return cells
    wanted = [str(w) for w in (only if isinstance(only, list | tuple) else [only])]
    known = {w for i, c in enumerate(cells) for w in (str(i), c.row, c.signature, c.name)}
    unknown = [w for w in wanted if w not in known]
    if unknown:
        rows = ", ".join(f"'{r}'" for r in dict.fromkeys(c.row for c in cells))
        raise UserError(
            f"only={unknown[0]} names no cell: expected a number from 0 to {len(cells) - 1} "
            f"or a row ({rows}); several: 'only=[A,B]'"
        )
    return [
        c
        for i, c in enumerate(cells)
        if any(w in (str(i), c.row, c.signature, c.name) for w in wanted)
    ]


def chosen(experiment: Experiment) -> Experiment:
    """The experiment with what ``only=`` names, for commands that show cells; else all of it."""
    only = experiment.cells[0].config.get("only") if experiment.cells else None
    if experiment.search is not None or only is None:
        return experiment
    cells = select(experiment.cells, only)
    rows, columns = ({c.row for c in cells}, {_column(c.point, experiment) for c in cells})
    return replace(
        experiment,
        cells=cells,
        rows=tuple(row for row in experiment.rows if row in rows),
        places=tuple(p for p in experiment.places if _column(p, experiment) in columns),
        overrides=tuple(word for word in experiment.overrides if not word.startswith("only=")),
    )


def expand_whole(command: str, overrides: list[str]) -> Experiment:
    """Every cell, for commands whose files and families of tests are of whole experiments."""
    if any(word.startswith("only=") for word in overrides):
        raise UserError(
            f"{command}: found only=, expected a whole experiment: leave it out. `semimedref "
            "table` and `semimedref status` show some of its cells"
        )
    return sweep.expand(overrides)


def _column(point: dict[str, str], experiment: Experiment) -> tuple[str, ...]:
    return tuple(point.get(name, "") for name in experiment.columns)
