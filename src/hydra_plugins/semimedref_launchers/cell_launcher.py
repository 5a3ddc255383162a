"""What our launchers share: they get cells, each a run folder, and Hydra's lists of overrides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.semimedref_launchers.orders import orders_of


class CellLauncher(Launcher):
    """A launcher that our sweepers tell the cells, and not only their overrides."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep the configuration of the sweep."""
        del hydra_context, task_function
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Hydra's own entry: every list of overrides is a run."""
        del initial_job_idx
        return self.launch_cells(orders_of(self.config, job_overrides), attached=(), stop=False)

    @abstractmethod
    def launch_cells(
        self, orders: Sequence[Any], *, attached: Sequence[str], stop: bool
    ) -> Sequence[JobReturn]:
        """Run cells, each once, and wait for them.

        Args:
            orders: what to run.
            attached: run folders whose jobs are under way already.
            stop: whether the first failure ends the sweep.
        """
