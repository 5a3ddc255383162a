"""Search the space of an experiment with Optuna, on whichever launcher is configured.

The samplers are those of hydra-optuna-sweeper (``hydra/sweeper/sampler=tpe``), and so is the way
in which ranges are written. What decides, keeps and resumes is in ``semimedref.search``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from omegaconf import MISSING, DictConfig

from hydra_plugins.semimedref_sweeper.launching import LaunchingSweeper, print_errors
from semimedref.errors import UserError

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from semimedref.search.point import Order
    from semimedref.search.settings import Search

_TRUSTED = ("hydra_plugins.hydra_optuna_sweeper.*", "optuna.samplers.*")


@dataclass
class SearchSweeperConf:
    """Ranges by key; everything else about a search is in the experiment's ``search`` node."""

    defaults: list[Any] = field(default_factory=lambda: [{"sampler": "tpe"}])
    _target_: str = "hydra_plugins.semimedref_search.search_sweeper.SearchSweeper"
    sampler: Any = MISSING
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(
    group="hydra/sweeper", name="search", node=SearchSweeperConf, provider="semimedref"
)


class SearchSweeper(LaunchingSweeper):
    """Proposes points in batches and hands those that are still to run to the launcher."""

    def __init__(self, sampler: DictConfig, params: dict[str, Any]) -> None:
        self.sampler, self.params = sampler, params

    def sweep(self, arguments: list[str]) -> None:
        """Run the trials that are missing; the second time there is nothing to do."""
        from semimedref.folder import RunFolder
        from semimedref.search.drive import Drive
        from semimedref.search.record import Study
        from semimedref.search.settings import read_search

        _check_options(self.config)
        if self.config.dry_run:
            from semimedref.planning.text import plan_text
            from semimedref.sweep import expand

            print(plan_text(expand(arguments)), end="", flush=True)
            return
        search = read_search(self.config, arguments)
        with RunFolder.create(search.folder).locked():
            study = Study.load(search)
            sampler, study.size = _sampler(search)
            self.jobs = 0
            drive = Drive(
                search, study, self._launcher(search), sampler, self._announce,
                retry=self.config.retry_failed, stop=self.config.on_error == "stop",
            )  # fmt: skip
            print(drive.headline(), flush=True)
            drive.run()
        _conclude(drive)

    def _launcher(self, search: Search) -> Callable[[Sequence[Order], Sequence[str]], None]:
        """How a batch is trained: nothing that happens to a job may end the search.

        A launcher that knows cells tells what happened to them; an error of its own (a queue that
        refuses) ends the search before a point is wasted on it.
        """

        def launch(orders: Sequence[Order], waiting: Sequence[str]) -> None:
            _prepare_store(self.config)
            try:
                jobs = self._launched(search, orders, waiting)
            except Exception as error:
                if hasattr(self.launcher, "launch_cells"):
                    raise
                print(f"the launcher reported: {' '.join(str(error).split())}", flush=True)
                return
            self.jobs += len(orders)
            print_errors(jobs, "trial")

        return launch

    def _announce(self, runs: Sequence[str]) -> None:
        """MLflow learns which study a run serves that was finished before."""
        from pathlib import Path

        from semimedref.config import resolved
        from semimedref.tracking import open_mirror

        plain = resolved(self.config)
        if runs:
            _prepare_store(self.config)
        for name in runs:
            mirror = open_mirror(Path(plain["run_root"]) / name, plain)
            mirror.notify()
            mirror.close()

    def _launched(
        self, search: Search, orders: Sequence[Order], waiting: Sequence[str]
    ) -> Sequence[JobReturn]:
        if not hasattr(self.launcher, "launch_cells"):
            if not orders:
                return []  # jobs of another launcher are under way
            return self.launcher.launch([list(o.overrides) for o in orders], self.jobs)
        from semimedref.launch.cell import CellOrder

        root = str(search.run_root.absolute())
        cells = [CellOrder(order.name, root, order.overrides) for order in orders]
        return list(self.launcher.launch_cells(cells, attached=list(waiting), stop=False))


def _sampler(search: Search) -> tuple[Callable[[int], BaseSampler], int | None]:
    """What makes the sampler of a trial, and the size of a grid."""
    from functools import partial
    from math import prod

    from hydra.utils import instantiate

    from semimedref.search.propose import distributions, grid, trial_seed

    is_grid = str(search.sampler["_target_"]).endswith("GridSampler")
    values = grid(distributions(search.space)) if is_grid else {}

    def make(number: int) -> BaseSampler:
        # The order of a grid is drawn once for all trials.
        seed = search.seed if is_grid else trial_seed(search.seed, number)
        made = instantiate({**search.sampler, "seed": seed}, _execution_whitelist_=_TRUSTED)
        return made(values) if isinstance(made, partial) else made

    return make, prod(map(len, values.values())) if is_grid else None


def _check_options(config: DictConfig) -> None:
    if config.on_error not in ("continue", "stop"):
        raise UserError(f"on_error={config.on_error}: expected continue or stop")
    if config.only is not None:
        raise UserError(
            "only= picks cells of a table; a search runs the trials that are missing: leave it out"
        )
    if "search" not in config:
        raise UserError(
            "hydra/sweeper=search needs an experiment with a `search` node: e.g. "
            "`semimedref train -m experiment=search_phantom`"
        )


def _prepare_store(config: DictConfig) -> None:
    """The parent makes the tracking store before jobs start together."""
    from semimedref.config import resolved
    from semimedref.tracking import prepare_store

    prepare_store(resolved(config))


def _conclude(drive: Any) -> None:  # noqa: ANN401 - a Drive, imported late
    from semimedref.search.text import summary

    words = shlex.join(drive.search.overrides)
    failed = [t for t in drive.study.trials[: drive.total] if t.state == "failed"]
    if failed and len(failed) == len(drive.study.trials[: drive.total]):
        raise UserError(
            f"all {len(failed)} trials of {drive.study.name} failed, the first with: "
            f"{failed[0].reason}. `semimedref status {words}` lists them; retry_failed=true runs "
            "them again"
        )
    print(summary(drive.search, drive.study), flush=True)
