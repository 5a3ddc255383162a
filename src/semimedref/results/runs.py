"""The cells of an experiment with what their folders, and SLURM's queue, hold now."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results import store
from semimedref.results.index import Index

if TYPE_CHECKING:
    from semimedref.launch.queue import Place
    from semimedref.sweep import Cell, Experiment


@dataclass(frozen=True)
class Run:
    """One cell of an experiment with what its folder holds now."""

    cell: Cell
    folder: Path
    state: store.State
    result: store.Result | None
    seed: str
    experiment: tuple[str, ...]
    problem: str = ""  # why its files cannot be used
    job: str = ""  # the SLURM job that it was handed to
    lost: bool = False  # that job was cancelled or lost, which is no failure of the cell

    @property
    def command(self) -> str:
        """The command that trains this cell, or continues it, and no other."""
        retry = ["retry_failed=true"] if self.state == "failed" and not self.lost else []
        launcher = ["hydra/launcher=slurm"] if self.job else []
        words = [*self.experiment, f"only={self.cell.name}", *retry, *launcher]
        more = "   # and the launcher's settings of the sweep" if launcher else ""
        return "semimedref train -m " + shlex.join(words) + more


def read_runs(experiment: Experiment) -> list[Run]:
    """State and result of every cell, in the experiment's order."""
    from semimedref.launch.queue import places

    with Index.open(Path(experiment.run_root)) as index:
        runs = [_read_sound(cell, experiment, index) for cell in experiment.cells]
    queue = places(Path(experiment.run_root))
    return [_in_queue(run, queue) for run in runs] if queue else runs


def _in_queue(run: Run, queue: Mapping[str, Place]) -> Run:
    """The run with what SLURM says of its job."""
    from semimedref.launch.queue import is_taken_away, lost_reason, seen

    place = queue.get(run.cell.name)
    if place is None or run.problem:
        return run
    lost = run.state != "failed" and is_taken_away(run.folder, run.state, place)
    problem = lost_reason(run.folder.parent, place) if lost else ""
    return replace(run, state=seen(run.state, place), problem=problem, job=place.job, lost=lost)


def _read_sound(cell: Cell, experiment: Experiment, index: Index) -> Run:
    """A cell whose files are damaged is a failed one: it must not hide the others."""
    try:
        return read_run(cell, experiment, index)
    except UserError as error:
        return replace(broken_run(cell, experiment), problem=str(error))


def read_run(cell: Cell, experiment: Experiment, index: Index | None = None) -> Run:
    """State and result of one cell; of many, ask an index."""
    run = broken_run(cell, experiment)
    state, result = store.look(run.folder) if index is None else index.look(run.folder)
    return replace(run, state=state, result=result)


def broken_run(cell: Cell, experiment: Experiment) -> Run:
    """A cell whose files cannot be read counts as failed."""
    folder = Path(experiment.run_root) / cell.name
    words = experiment.overrides or (f"experiment={experiment.name}",)
    return Run(cell, folder, "failed", None, cell.point.get(experiment.over, ""), words)


def column_of(cell: Cell, experiment: Experiment) -> tuple[str, ...]:
    """The cell's value in each table column."""
    return tuple(cell.point.get(name, "") for name in experiment.columns)
