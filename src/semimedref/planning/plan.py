"""The cost of an experiment, or of several that share runs."""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from semimedref import config as configuration
from semimedref import needs
from semimedref.errors import UserError
from semimedref.planning.counts import Counts
from semimedref.planning.disk import COPIES_WHILE_SAVING, code_bytes
from semimedref.planning.gpu import Gpu, precision_of
from semimedref.planning.run_plan import RunPlan, plan_run
from semimedref.results import store
from semimedref.results.runs import Run, read_runs

if TYPE_CHECKING:
    from semimedref.sweep import Cell, Experiment


@dataclass(frozen=True)
class Line:
    """A row of an experiment, or a whole experiment: how many cells, and their runs, each once."""

    label: str
    cells: int
    runs: tuple[RunPlan, ...]

    @property
    def open(self) -> list[RunPlan]:
        """Runs that are not done."""
        return [run for run in self.runs if run.is_open]

    @property
    def states(self) -> dict[str, int]:
        """How many runs are in each state that occurs."""
        found = Counter(run.state for run in self.runs)
        return {state: found[state] for state in store.STATES if found[state]}

    @property
    def gpu_hours(self) -> float:
        """Of all open runs together."""
        return sum(run.gpu_hours for run in self.open)

    @property
    def memory(self) -> int:
        """Bytes on the GPU of the largest open run."""
        return max((run.memory for run in self.open), default=0)

    @property
    def end_bytes(self) -> int:
        """What the folders of all open runs will hold."""
        return sum(run.end_bytes for run in self.open)

    def wall_hours(self, gpus: int) -> float:
        """Until the last run ends, if the longest start first.

        What others start from comes before all; a GPU waits only for such a run.
        """
        busy = [0.0] * gpus
        ended: dict[str, float] = {}
        first = {name for run in self.open for name in run.after}
        for run in sorted(self.open, key=lambda run: (run.name not in first, -run.gpu_hours)):
            ready = max((ended.get(name, 0.0) for name in run.after), default=0.0)
            ended[run.name] = max(busy[0], ready) + run.gpu_hours
            heapq.heapreplace(busy, ended[run.name])
        return max(busy)

    def peak_bytes(self, gpus: int) -> int:
        """The most that the folders hold while so many runs train: the largest at the end."""
        running = heapq.nlargest(gpus, (run.last_bytes for run in self.open))
        return self.end_bytes + COPIES_WHILE_SAVING * sum(running)


@dataclass(frozen=True)
class Plan:
    """Lines and their sum, in which a run that several lines share counts once.

    Attributes:
        needed: runs that stand in no cell, but that cells start from; they are in the sum.
    """

    name: str
    what: str  # what a line is
    lines: tuple[Line, ...]
    needed: Line
    total: Line
    gpu: Gpu | None  # None: there is no cell
    precisions: tuple[str, ...] = ()
    most_at_once: int | None = None  # a search proposes no more points before these have ended

    @property
    def own(self) -> Line:
        """The sum without what is needed beside the cells."""
        further = {run.name for run in self.needed.runs}
        return replace(self.total, runs=tuple(r for r in self.total.runs if r.name not in further))

    @property
    def shown(self) -> tuple[Line, ...]:
        """All lines, the sum last."""
        needed = (self.needed,) if self.needed.runs else ()
        return (*self.lines, *needed, self.total)

    @property
    def at_once(self) -> int:
        """Runs that train at one time."""
        gpus = self.gpu.at_once if self.gpu else 1
        return gpus if self.most_at_once is None else min(gpus, self.most_at_once)

    @property
    def cache_bytes(self) -> int:
        """Decoded pictures of all data sets; every run of a data set reads the same."""
        return sum(dict(run.cache for run in self.total.open).values())

    @property
    def pretrained_bytes(self) -> int:
        """Encoders to fetch; runs of one scale share them."""
        return max((run.pretrained_bytes for run in self.total.open), default=0)

    @property
    def code_bytes(self) -> int:
        """One copy of program and configuration."""
        return code_bytes()

    @property
    def unknown(self) -> list[str]:
        """Why some runs are not in the sums."""
        return list(dict.fromkeys(run.unknown for run in self.total.open if run.unknown))


def plan_experiment(experiment: Experiment, cells: Sequence[Cell] | None = None) -> Plan:
    """A line for each row of an experiment; ``cells``: only these of it."""
    planner = Planner()
    if experiment.search is not None:
        come = planner.to_come(experiment)
        known = planner.line("trials so far", _unstopped(experiment))
        plan = planner.plan(experiment.name, "search", [known, come])
        return replace(plan, most_at_once=experiment.search.search.batch)
    chosen = {id(cell) for cell in (experiment.cells if cells is None else cells)}
    found = [run for run in read_runs(experiment) if id(run.cell) in chosen]
    rows = dict.fromkeys(run.cell.row for run in found)
    # The first plan counts the step of every network, which takes a minute for the main table.
    shown = tqdm(rows, desc="counting", leave=False, disable=not sys.stderr.isatty())
    lines = [planner.line(row, [r for r in found if r.cell.row == row]) for row in shown]
    return planner.plan(experiment.name, "method", lines)


def plan_experiments(experiments: Iterable[Experiment]) -> Plan:
    """A line for each of several experiments."""
    planner = Planner()
    lines = []
    for experiment in experiments:
        come = None if experiment.search is None else planner.to_come(experiment)
        line = planner.line(experiment.name, _unstopped(experiment))
        if come is not None:
            line = Line(line.label, line.cells + come.cells, line.runs + come.runs)
        lines.append(line)
    return planner.plan("all experiments", "experiment", lines)


def _unstopped(experiment: Experiment) -> list[Run]:
    """Without runs that a search has ended early: nobody is going to finish them."""
    from semimedref.launch.queue import is_stopped

    runs = read_runs(experiment)
    return runs if experiment.search is None else [r for r in runs if not is_stopped(r.folder)]


# Counting and composing take seconds, and a second plan of the same cells changes nothing.
_COUNTED: dict[str, Counts] = {}
_NEEDED: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}  # by the words of the run


class Planner:
    """Plans every run once, whichever tables it stands in."""

    def __init__(self) -> None:
        self._plans: dict[str, RunPlan] = {}
        self._needed: dict[str, dict[str, Any]] = {}  # configurations, by the run's name
        self._gpu: Gpu | None = None
        self._precisions: dict[str, None] = {}

    def line(self, label: str, runs: Sequence[Run]) -> Line:
        """A line for some cells."""
        once = {run.cell.name: run for run in runs}
        return Line(label, len(runs), tuple(self._planned(run) for run in once.values()))

    def plan(self, name: str, what: str, lines: Sequence[Line]) -> Plan:
        """Lines with their sum."""
        missing = [self._planned_need(*item) for item in self._needed.items()]
        needed = Line("needed by others", 0, tuple(run for run in missing if run is not None))
        runs = (*self._plans.values(), *needed.runs)
        total = Line("total", sum(line.cells for line in lines), runs)
        return Plan(name, what, tuple(lines), needed, total, self._gpu, tuple(self._precisions))

    def to_come(self, experiment: Experiment) -> Line:
        """Trials that a search has not drawn yet, each as costly as its starting point."""
        from semimedref.search.point import compose

        view = experiment.search
        assert view is not None, "only a search has trials"
        name, config = compose(view.search.fixed)
        number = max(0, view.study.total(view.search.trials) - len(view.study.trials))
        needed = _needed_by(config, view.search.fixed)
        self._needed |= needed
        one = self._cost(name, config, state="missing", epochs_done=0)
        one = replace(one, after=tuple(needed))
        runs = {f"{experiment.name} {k}": replace(one, name=f"{name} {k}") for k in range(number)}
        self._plans |= runs
        return Line("trials to come", number, tuple(runs.values()))

    def _planned(self, run: Run) -> RunPlan:
        name, config = run.cell.name, run.cell.config
        if name not in self._plans:
            done = _epochs(run.folder, run.state)
            plan = self._cost(name, config, state=run.state, epochs_done=done)
            needed = _needed_by(config, run.cell.overrides) if plan.is_open else {}
            self._needed |= needed
            self._plans[name] = replace(plan, after=tuple(needed))
        return self._plans[name]

    def _planned_need(self, name: str, config: dict[str, Any]) -> RunPlan | None:
        """A run that others start from; None: it is done, or a cell itself."""
        if name in self._plans:
            return None
        folder = Path(config["run_root"]) / name
        state: store.State = "failed"  # a folder whose files are damaged
        with suppress(UserError):
            state = store.look(folder)[0]
        if state == "done":
            return None
        return self._cost(name, config, state=state, epochs_done=_epochs(folder, state))

    def _cost(
        self, name: str, config: dict[str, Any], *, state: store.State, epochs_done: int
    ) -> RunPlan:
        """Plan a run with the counts of another one that costs the same, if there is one."""
        if self._gpu is None:
            self._gpu = gpu_of(config)
        self._precisions[precision_of(config, self._gpu)] = None
        counts = Counts(config)
        counts = _COUNTED.setdefault(counts.key, counts)
        return plan_run(
            name, config, state=state, epochs_done=epochs_done, gpu=self._gpu, counts=counts
        )


def _needed_by(config: dict[str, Any], overrides: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Configurations of what a run starts from, by their names; composed for the first plan."""
    if not config.get("needs"):
        return {}
    words = tuple(overrides)
    if words not in _NEEDED:
        _NEEDED[words] = needs.of_run(config, words)
    return _NEEDED[words]


def gpu_of(config: dict[str, Any]) -> Gpu:
    """The GPU that a configuration names."""
    from omegaconf import OmegaConf

    gpu: Gpu = configuration.build(OmegaConf.create(config), "gpu")
    return gpu


def _epochs(folder: Path, state: store.State) -> int:
    """Whole epochs that an unfinished run has made and will not make again."""
    if state == "done" or not (folder / "last.pt").exists():
        return 0
    with suppress(UserError):
        return len(store.load_metrics(folder))
    return 0
