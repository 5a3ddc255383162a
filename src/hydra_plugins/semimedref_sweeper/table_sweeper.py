"""Sweep the cells of a table: each signature once, finished ones skipped, failures kept apart."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from semimedref import sweep
from semimedref.errors import UserError
from semimedref.results.store import state

log = logging.getLogger(__name__)


@dataclass
class TableSweeperConf:
    """Rows by label, each with its overrides, and params with comma-separated values."""

    _target_: str = "hydra_plugins.semimedref_sweeper.table_sweeper.TableSweeper"
    rows: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="table", node=TableSweeperConf, provider="semimedref"
)


class TableSweeper(Sweeper):
    """Hands the cells that are still to run to whichever launcher is configured."""

    def __init__(self, rows: dict[str, Any], params: dict[str, Any]) -> None:
        self.rows, self.params = rows, params

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep the configuration and make the launcher."""
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Any]:
        """Run what is missing; the second time there is nothing to do."""
        options = self.config
        if options.on_error not in ("continue", "stop"):
            raise UserError(f"on_error={options.on_error}: expected continue or stop")
        experiment = sweep.expand(arguments)
        only = OmegaConf.to_container(options, resolve=False)["only"]
        cells = _unique(sweep.select(experiment.cells, only))
        states = {c.signature: state(experiment.run_root / c.name) for c in cells}
        wanted = {"missing", "paused"} | ({"failed"} if options.retry_failed else set())
        todo = [c for c in cells if states[c.signature] in wanted]
        print(_headline(list(states.values()), len(todo)), flush=True)
        if todo:
            _prepare_store(todo[0].config)
        returned = self._launch(todo, experiment.run_root)
        _conclude(experiment, cells, todo)
        return returned

    def _launch(self, todo: list[sweep.Cell], run_root: Path) -> list[Any]:
        """All at once, or one by one when the first failure is to end the sweep."""
        stop = self.config.on_error == "stop"
        returned: list[Any] = []
        for batch in [[c] for c in todo] if stop else [todo] if todo else []:
            overrides = [list(c.overrides) for c in batch]
            try:
                jobs = self.launcher.launch(overrides, initial_job_idx=len(returned))
                returned += jobs
                for message in map(_error, jobs):
                    if message:
                        print(f"a cell failed: {message}", flush=True)
            except Exception as error:  # a lost job must not hide the cells that finished
                print(f"the launcher reported: {' '.join(str(error).split())}", flush=True)
            if stop and any(state(run_root / c.name) != "done" for c in batch):
                print("on_error=stop: the remaining cells were not started", flush=True)
                break
        return returned


def _unique(cells: Sequence[sweep.Cell]) -> list[sweep.Cell]:
    return list({c.signature: c for c in cells}.values())


def _headline(states: list[str], to_run: int) -> str:
    parts = [f"{len(states)} cells", f"{states.count('done')} done"]
    for name in ("running", "failed"):
        if name in states:
            hint = " (retry_failed=true runs them again)" if name == "failed" else ""
            parts.append(f"{states.count(name)} {name}{hint}")
    return ", ".join([*parts, f"{to_run} to run"])


def _prepare_store(config: dict[str, Any]) -> None:
    """The parent makes the tracking store before jobs start together."""
    from semimedref.tracking import prepare_store

    prepare_store(config)


def _error(job: JobReturn) -> str | None:
    """What ended a job, in one line."""
    if job.status is not JobStatus.FAILED:
        return None
    try:
        job.return_value  # noqa: B018 - reading it raises the job's error
    except Exception as error:
        return " ".join(str(error).split())
    return None


def _conclude(
    experiment: sweep.Experiment, cells: list[sweep.Cell], tried: list[sweep.Cell]
) -> None:
    states = {c.signature: state(experiment.run_root / c.name) for c in cells}
    left = sum(s not in ("done", "failed") for s in states.values())
    if tried:
        print(_headline(list(states.values()), left), flush=True)
    unfinished = [c for c in tried if states[c.signature] not in ("done", "running")]
    if unfinished:
        words = shlex.join(experiment.overrides)
        raise UserError(
            f"{len(unfinished)} of {len(tried)} cells did not finish: "
            f"`semimedref status {words}` says why"
        )
