"""``hydra/launcher=gpu_local``: one process a GPU of this machine, or over its cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn

from hydra_plugins.semimedref_launchers.cell_launcher import CellLauncher
from hydra_plugins.semimedref_launchers.orders import (
    config_dirs,
    job_returns,
    with_config_dirs,
)


class GpuLocalLauncher(CellLauncher):
    """Queues the cells of a sweep over the GPUs, or the cores, of this machine."""

    def __init__(
        self,
        *,
        gpus: Sequence[str | int] | None,
        cells_per_gpu: int,
        threads: int | None,
        max_restarts: int,
    ) -> None:
        self.gpus = gpus
        self.cells_per_gpu, self.threads, self.max_restarts = cells_per_gpu, threads, max_restarts

    def launch_cells(
        self, orders: Sequence[Any], *, attached: Sequence[str], stop: bool
    ) -> Sequence[JobReturn]:
        """Run cells, each once; returns when all have ended."""
        del attached  # cells in a SLURM queue are not ours to wait for
        from semimedref.errors import UserError
        from semimedref.launch.process_queue import ProcessQueue
        from semimedref.launch.slots import slots

        threads = self.config.hardware.threads if self.threads is None else self.threads
        places = slots(gpus=self._gpus(), cells_per_gpu=self.cells_per_gpu, threads=threads)
        if not (isinstance(self.max_restarts, int) and self.max_restarts >= 0):
            raise UserError(
                f"hydra.launcher.max_restarts={self.max_restarts}: expected a number from 0 on"
            )
        if not orders:
            return []
        what = "1 cell" if len(orders) == 1 else f"{len(orders)} cells"
        print(f"{what} over {', '.join(p.label for p in places)}", flush=True)
        folders = config_dirs(self.config)
        unique = {o.name: with_config_dirs(o, folders) for o in orders}
        queue = ProcessQueue(places, max_restarts=self.max_restarts, stop=stop)
        queue.run(list(unique.values()))
        return job_returns(orders, finished=True)

    def _gpus(self) -> Sequence[str | int] | None:
        return [] if self.config.hardware.device == "cpu" else self.gpus
