"""``hydra/launcher=slurm``: the cells of a sweep as one array, which nobody has to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn

from hydra_plugins.semimedref_launchers.cell_launcher import CellLauncher
from hydra_plugins.semimedref_launchers.orders import (
    config_dirs,
    job_returns,
    with_config_dirs,
)
from semimedref.errors import UserError


class SlurmLauncher(CellLauncher):
    """Submits cells, and watches them unless it is told to detach."""

    def __init__(self, *, detach: bool, poll_seconds: float, **settings: Any) -> None:  # noqa: ANN401
        from semimedref.launch.slurm import SlurmSettings

        known = SlurmSettings.__dataclass_fields__
        unknown = [key for key in settings if key not in known]
        if unknown:
            raise UserError(
                f"hydra.launcher.{unknown[0]} is unknown: expected {', '.join(known)}; other "
                "options of sbatch: hydra.launcher.additional_parameters"
            )
        settings["setup"] = tuple(settings["setup"])
        settings["additional_parameters"] = dict(settings["additional_parameters"])
        self.settings = SlurmSettings(**settings)
        self.detach, self.poll_seconds = detach, poll_seconds

    def launch_cells(
        self, orders: Sequence[Any], *, attached: Sequence[str], stop: bool
    ) -> Sequence[JobReturn]:
        """Submit cells, each once, and wait for them and for those that were submitted before."""
        from semimedref.files import exclusive
        from semimedref.launch import watch
        from semimedref.launch.queue import GONE, places, require_answer
        from semimedref.launch.submission import FOLDER

        run_root = Path(self.config.run_root).absolute()
        unique = list({o.name: o for o in orders}.values())
        if unique:
            with exclusive(run_root / FOLDER / "lock"):  # two sweeps may start at the same time
                require_answer(run_root)
                now = places(run_root)
                taken = {n for n, place in now.items() if place.at != GONE}
                self._submit([o for o in unique if o.name not in taken])
        if attached:
            cells = "1 cell is" if len(attached) == 1 else f"{len(attached)} cells are"
            print(
                f"{cells} in the queue from before, with the settings of then; to change them "
                f"`scancel {' '.join(_arrays(run_root, attached))}`, then the same command again",
                flush=True,
            )
        waited = [*attached, *(o.name for o in unique)]
        if self.detach:
            print(
                "not waiting for them: `semimedref status` with the same words shows them, the "
                "same train command waits",
                flush=True,
            )
            return job_returns(orders, finished=False)
        try:
            watch.watch(run_root, waited, poll_seconds=self.poll_seconds, stop=stop)
        except KeyboardInterrupt:
            arrays = " ".join(_arrays(run_root, waited))
            print(
                f"the jobs go on without this process; `scancel {arrays}` ends them, "
                "the same train command waits for them again",
                flush=True,
            )
            raise
        return job_returns(orders, finished=True)

    def _submit(self, orders: Sequence[Any]) -> None:
        if not orders:
            return
        from semimedref.launch.slurm import submit
        from semimedref.launch.snapshot import take_snapshot

        run_root = Path(self.config.run_root).absolute()
        code = take_snapshot(
            run_root,
            config_dirs=config_dirs(self.config),
            packages=list(self.config.trusted_packages),
        )
        orders = [with_config_dirs(o, code.config_dirs) for o in orders]
        name = f"semimedref-{self.config.experiment_name or 'runs'}"
        jobs = submit(orders, self.settings, name=name, code=code)
        arrays = sorted({job.partition("_")[0] for job in jobs})
        cells = "1 cell is" if len(orders) == 1 else f"{len(orders)} cells are"
        many = "arrays" if len(arrays) > 1 else "array" if len(jobs) > 1 else "job"
        print(f"{cells} in the queue: {many} {', '.join(arrays)}", flush=True)


def _arrays(run_root: Path, names: Sequence[str]) -> list[str]:
    """The numbers of the jobs that cells were handed to."""
    from semimedref.launch.submission import jobs_of_cells

    known = jobs_of_cells(run_root)
    return sorted({known[name].partition("_")[0] for name in names if name in known})
