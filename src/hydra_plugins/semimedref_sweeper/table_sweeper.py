"""Sweep the cells of a table: each signature once, finished ones skipped, failures kept apart."""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from hydra_plugins.semimedref_sweeper.launching import (
    LaunchingSweeper,
    print_errors,
    without_configs,
)
from semimedref import sweep
from semimedref.errors import UserError
from semimedref.launch.queue import is_taken_away, places, seen
from semimedref.only import select
from semimedref.results.store import state

log = logging.getLogger(__name__)
_OF_A_SWEEP = ("hydra.searchpath", "hydra.sweeper.")  # what decides which cells there are


@dataclass
class TableSweeperConf:
    """Rows by label, each with its overrides, and params with comma-separated values."""

    _target_: str = "hydra_plugins.semimedref_sweeper.table_sweeper.TableSweeper"
    rows: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="table", node=TableSweeperConf, provider="semimedref"
)


class TableSweeper(LaunchingSweeper):
    """Hands the cells that are still to run to whichever launcher is configured."""

    def __init__(self, rows: dict[str, Any], params: dict[str, Any]) -> None:
        self.rows, self.params = rows, params

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Run what is missing; the second time there is nothing to do."""
        options = self.config
        if options.on_error not in ("continue", "stop"):
            raise UserError(f"on_error={options.on_error}: expected continue or stop")
        experiment = self._expand(arguments)
        only = OmegaConf.to_container(options, resolve=False)["only"]
        cells = _unique(select(experiment.cells, only))
        if options.dry_run:
            from semimedref.planning.text import plan_text

            print(plan_text(experiment, cells), end="", flush=True)
            return []
        root, queue = experiment.run_root, places(experiment.run_root)
        found = {c.name: state(root / c.name) for c in cells}
        states = {name: seen(found[name], queue.get(name)) for name in found}
        wanted = {"missing", "paused"} | ({"failed"} if options.retry_failed else set())
        lost = {n for n in found if is_taken_away(root / n, found[n], queue.get(n))}
        todo = [c for c in cells if states[c.name] in wanted or c.name in lost]
        print(_headline(states, {c.name for c in todo}), flush=True)
        if todo:
            _prepare_store(todo[0].config)
        if hasattr(self.launcher, "launch_cells"):
            waiting = [n for n, s in states.items() if s in ("queued", "running") and n in queue]
            returned = self._launch_cells(todo, waiting, root)
        else:
            waiting, returned = [], self._launch(todo, root)
        _conclude(experiment, cells, [c for c in cells if c in todo or c.name in waiting])
        return returned

    def _expand(self, arguments: list[str]) -> sweep.Experiment:
        """All cells, as reading commands see them; Hydra keeps words such as hydra.sweeper apart.

        Launchers know these words themselves, so that they are no part of a cell's overrides.
        """
        given = self.config.hydra.overrides.hydra
        apart = [word for word in given if word.lstrip("+~").startswith(_OF_A_SWEEP)]
        experiment = sweep.expand([*arguments, *apart])
        cells = [
            replace(c, overrides=tuple(w for w in c.overrides if w not in apart))
            for c in experiment.cells
        ]
        return replace(experiment, cells=cells)

    def _launch_cells(
        self, todo: list[sweep.Cell], waiting: list[str], run_root: Path
    ) -> list[Any]:
        """Hand all to a launcher that knows cells, and may know some of them already."""
        from semimedref.launch.cell import CellOrder

        root = str(run_root.absolute())
        orders = [CellOrder(c.name, root, c.overrides) for c in todo]
        stop = self.config.on_error == "stop"
        jobs = self.launcher.launch_cells(orders, attached=waiting, stop=stop)
        print_errors(jobs, "cell")
        return list(jobs)

    def _launch(self, todo: list[sweep.Cell], run_root: Path) -> list[Any]:
        """All at once; one by one in this process, or when the first failure ends the sweep."""
        stop = self.config.on_error == "stop"
        singly = stop or isinstance(self.launcher, BasicLauncher)
        returned: list[Any] = []
        for batch in [[c] for c in todo] if singly else [todo] if todo else []:
            overrides = [list(c.overrides) for c in batch]
            try:
                jobs = self.launcher.launch(overrides, initial_job_idx=len(returned))
                print_errors(jobs, "cell")
                returned += map(without_configs, jobs)
            except Exception as error:  # a lost job must not hide the cells that finished
                print(f"the launcher reported: {' '.join(str(error).split())}", flush=True)
            if stop and any(state(run_root / c.name) != "done" for c in batch):
                print("on_error=stop: the remaining cells were not started", flush=True)
                break
        return returned


def _unique(cells: Sequence[sweep.Cell]) -> list[sweep.Cell]:
    return list({c.signature: c for c in cells}.values())


def _headline(states: dict[str, str], to_run: set[str]) -> str:
    counts = Counter(states.values())
    cells = "1 cell" if len(states) == 1 else f"{len(states)} cells"
    parts = [cells, f"{counts['done']} done"]
    for name in ("running", "queued", "failed"):
        if counts[name]:
            parts.append(f"{counts[name]} {name}")
    if any(state == "failed" and name not in to_run for name, state in states.items()):
        parts[-1] += " (retry_failed=true runs them again)"
    return ", ".join([*parts, f"{len(to_run)} to run"])


def _prepare_store(config: dict[str, Any]) -> None:
    """The parent makes the tracking store before jobs start together."""
    from semimedref.tracking import prepare_store

    prepare_store(config)


def _conclude(
    experiment: sweep.Experiment, cells: list[sweep.Cell], tried: list[sweep.Cell]
) -> None:
    root, queue = experiment.run_root, places(experiment.run_root)
    states = {c.name: seen(state(root / c.name), queue.get(c.name)) for c in cells}
    left = {name for name, found in states.items() if found in ("missing", "paused")}
    if tried:
        print(_headline(states, left), flush=True)
    unfinished = [c for c in tried if states[c.name] not in ("done", "running", "queued")]
    if unfinished:
        words = shlex.join(experiment.overrides)
        raise UserError(
            f"{len(unfinished)} of {len(tried)} cells did not finish: "
            f"`semimedref status {words}` says why"
        )
