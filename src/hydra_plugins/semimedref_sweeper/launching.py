"""What our sweepers share: the launcher they hand work to, and what became of its jobs."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class LaunchingSweeper(Sweeper):
    """A sweeper on whichever launcher is configured."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep the configuration and make the launcher."""
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )


def print_errors(jobs: Sequence[JobReturn], what: str) -> None:
    """A line for every job that failed."""
    for message in filter(None, map(_error, jobs)):
        print(f"a {what} failed: {message}", flush=True)


def without_configs(job: JobReturn) -> JobReturn:
    """A job without the configurations that Hydra keeps of it: 1 MB each, and a thousand of them.

    So many live objects also make every pass of Python's garbage collector slower.
    """
    job.cfg = job.hydra_cfg = None
    return job


def _error(job: JobReturn) -> str | None:
    """What ended a job, in one line."""
    if job.status is not JobStatus.FAILED:
        return None
    try:
        job.return_value  # noqa: B018 - reading it raises the job's error
    except Exception as error:
        return " ".join(str(error).split())
    return None
