"""Build an experiment's table from its run folders: rows × columns × metrics over seeds."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results import cost, store
from semimedref.results.significance import bootstrap_ci

if TYPE_CHECKING:
    from semimedref.sweep import Cell, Experiment

CI_REPLICATES = 2_000
RESAMPLING_SEED = 0
MIN_TEXT_GAP = 0.05  # below it no text gain is claimed


@dataclass(frozen=True)
class Run:
    """One cell of an experiment with what its folder holds now."""

    cell: Cell
    folder: Path
    state: store.State
    result: store.Result | None
    seed: str
    experiment: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command that trains this cell, or continues it, and no other."""
        retry = ["retry_failed=true"] if self.state == "failed" else []
        words = [*self.experiment, f"only={self.cell.name}", *retry]
        return "semimedref train -m " + shlex.join(words)


@dataclass(frozen=True)
class Score:
    """One metric of one table line, as fractions: mean and sample deviation over the seeds done."""

    values: tuple[float, ...]
    ci: tuple[float, float] | None = None

    @property
    def n(self) -> int:
        """How many seeds have a value."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Mean over seeds, or None when there is none yet."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1), or None below two seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Entry:
    """One line of the table: a row label at one column value, over its seeds."""

    row: str
    column: tuple[str, ...]
    runs: tuple[Run, ...]
    scores: dict[str, Score]
    cost: dict[str, float] = field(default_factory=dict)  # counted, trained or not

    @property
    def done(self) -> tuple[Run, ...]:
        """The finished runs, in the order of the seeds."""
        return tuple(run for run in self.runs if run.result is not None)

    @property
    def complete(self) -> bool:
        """Whether every seed is finished."""
        return len(self.done) == len(self.runs)


@dataclass(frozen=True)
class Table:
    """A whole table; entries are grouped by column value, rows in the experiment's order."""

    name: str
    title: str
    columns: tuple[str, ...]
    over: str
    metrics: tuple[str, ...]
    entries: tuple[Entry, ...]
    run_root: Path
    cost: tuple[str, ...] = ()
    overhead: str | None = None
    ladder: bool = False
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[str]:
        """Row labels in order."""
        return list(dict.fromkeys(entry.row for entry in self.entries))

    @property
    def groups(self) -> list[tuple[tuple[str, ...], list[Entry]]]:
        """Entries by column value: what stands beside each other and is compared."""
        grouped: dict[tuple[str, ...], list[Entry]] = {}
        for entry in self.entries:
            grouped.setdefault(entry.column, []).append(entry)
        return list(grouped.items())

    @property
    def runs(self) -> list[Run]:
        """Every cell, in table order."""
        return [run for entry in self.entries for run in entry.runs]

    @property
    def chosen(self) -> Entry | None:
        """The line whose cost is shown as overhead."""
        return next((entry for entry in self.entries if entry.row == self.overhead), None)

    @property
    def oracles(self) -> list[float]:
        """The distinct Dice values of the text-blind oracle that the results carry."""
        values = {_score(run.result, "dice_text_blind_oracle") for run in self.runs if run.result}
        return sorted(value for value in values if value is not None)


def build_table(experiment: Experiment) -> Table:
    """Look up every cell of an experiment and summarise the finished ones.

    The interval stands beside global Dice. With one seed it is a bootstrap over patients; with
    several, the seed deviation is shown and the interval is hierarchical, over seeds and patients.
    """
    runs = read_runs(experiment)
    metrics = _metrics(experiment.metrics, runs)
    entries = [
        Entry(row, column, tuple(members), _scores(members, metrics), _cost(members, experiment))
        for (column, row), members in _grouped(experiment, runs).items()
    ]
    return Table(
        name=experiment.name,
        title=experiment.title,
        columns=tuple(experiment.columns),
        over=experiment.over,
        metrics=metrics,
        entries=tuple(entries),
        run_root=Path(experiment.run_root),
        cost=experiment.cost,
        overhead=experiment.overhead,
        ladder=experiment.ladder,
        notes=(*_notes(experiment), *_data_warnings(runs)),
    )


def read_runs(experiment: Experiment) -> list[Run]:
    """State and result of every cell, in the experiment's order."""
    return [read_run(cell, experiment) for cell in experiment.cells]


def read_run(cell: Cell, experiment: Experiment) -> Run:
    """State and result of one cell."""
    state = store.state(Path(experiment.run_root) / cell.name)
    run = broken_run(cell, experiment)
    result = store.load_result(run.folder) if state == "done" else None
    return replace(run, state=state, result=result)


def broken_run(cell: Cell, experiment: Experiment) -> Run:
    """A cell whose files cannot be read counts as failed."""
    folder = Path(experiment.run_root) / cell.name
    words = experiment.overrides or (f"experiment={experiment.name}",)
    return Run(cell, folder, "failed", None, cell.point.get(experiment.over, ""), words)


def column_of(cell: Cell, experiment: Experiment) -> tuple[str, ...]:
    """The cell's value in each table column."""
    return tuple(cell.point.get(name, "") for name in experiment.columns)


def _grouped(
    experiment: Experiment, runs: Iterable[Run]
) -> dict[tuple[tuple[str, ...], str], list[Run]]:
    """Runs of each table line: all rows of the first column value, then of the second."""
    columns: dict[tuple[str, ...], dict[str, list[Run]]] = {}
    for run in runs:
        rows = columns.setdefault(column_of(run.cell, experiment), {})
        members = rows.setdefault(run.cell.row, [])
        if any(run.seed == other.seed for other in members):
            known = {*experiment.columns, experiment.over}
            extra = ", ".join(sorted(set(run.cell.point) - known)) or "nothing else"
            raise UserError(
                f"{experiment.name}: row {run.cell.row!r} has two cells for {experiment.over}="
                f"{run.seed!r} (also swept: {extra}); expected one, add what is swept to "
                f"`table.columns` of conf/experiment/{experiment.name}.yaml"
            )
        members.append(run)
    return {(column, row): runs for column, rows in columns.items() for row, runs in rows.items()}


def _metrics(asked: Iterable[str], runs: Iterable[Run]) -> tuple[str, ...]:
    """The experiment's metrics; the text gap is always shown where the results carry it."""
    metrics = list(asked)
    known = any(_score(run.result, "text_gap") is not None for run in runs)
    return tuple([*metrics, "text_gap"] if known and "text_gap" not in metrics else metrics)


def _scores(runs: list[Run], metrics: Iterable[str]) -> dict[str, Score]:
    done = [run for run in runs if run.result is not None]
    scores = {}
    for metric in metrics:
        found = [_score(run.result, metric) for run in done]
        values = tuple(value for value in found if value is not None)
        scores[metric] = Score(values, _dice_ci(done) if metric == "dice" else None)
    return scores


def _cost(runs: list[Run], experiment: Experiment) -> dict[str, float]:
    return cost.count(runs[0].cell.config) if experiment.cost else {}


def _notes(experiment: Experiment) -> tuple[str, ...]:
    """How costs were counted."""
    if not experiment.cost:
        return ()
    sides = {cost.side_of(cell.config) for cell in experiment.cells}
    return (cost.CONVENTION.format(side=" and ".join(map(str, sorted(sides)))),)


def _data_warnings(runs: Iterable[Run]) -> tuple[str, ...]:
    """What verification warned of, as the results carry it: every table and report repeats it."""
    found: dict[str, None] = {}
    for run in runs:
        data = run.result.get("data", {}) if run.result else {}
        named = f"Data, {run.cell.config['dataset']['name']}: " if data else ""
        found |= dict.fromkeys(f"{named}{text}." for text in data.get("warnings", ()))
    return tuple(found)


def _dice_ci(done: list[Run]) -> tuple[float, float] | None:
    if not done:
        return None
    frames = [store.load_per_image(run.folder) for run in done]
    return bootstrap_ci(frames, replicates=CI_REPLICATES, seed=RESAMPLING_SEED)


def _score(result: store.Result | None, metric: str) -> float | None:
    """A finite value of the test scores, or None."""
    value = result["test"].get(metric) if result else None
    return None if value is None or not math.isfinite(value) else float(value)
