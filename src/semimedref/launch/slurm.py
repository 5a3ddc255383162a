"""Hand cells to SLURM through submitit: one array a sweep, cut where the cluster asks for it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semimedref.errors import UserError
from semimedref.launch import slurm_commands
from semimedref.launch.cell import CellOrder
from semimedref.launch.slurm_job import SlurmJob
from semimedref.launch.snapshot import Snapshot
from semimedref.launch.submission import FOLDER, LOGS, remember

# Exit codes of a process that was killed, and not asked to leave: SIGABRT, SIGBUS, SIGFPE, SIGKILL
# (also by a node short of memory) and SIGSEGV. SIGTERM is not among them: that is ``scancel``.
_KILLED = (134, 135, 136, 137, 139)

# The bare SLURM_JOB_ID of one task is that of its array, and would mean all tasks.
_OWN_JOB = '"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"'


@dataclass(frozen=True)
class SlurmSettings:
    """conf/hydra/launcher/slurm.yaml says what each is."""

    partition: str | None
    account: str | None
    qos: str | None
    gpus_per_node: int | None
    cpus_per_task: int
    mem_gb: float | None
    timeout_min: int
    array_parallelism: int
    signal_delay_s: int
    max_timeouts: int
    max_restarts: int
    cells_per_job: int
    setup: tuple[str, ...]
    additional_parameters: dict[str, Any]
    python: str | None

    def __post_init__(self) -> None:
        lowest = {"cpus_per_task": 1, "timeout_min": 1, "array_parallelism": 1, "cells_per_job": 1}
        lowest |= {"signal_delay_s": 0, "max_timeouts": 0, "max_restarts": 0}
        for key, least in lowest.items():
            value = getattr(self, key)
            if not isinstance(value, int) or value < least:
                raise UserError(
                    f"hydra.launcher.{key}={value}: expected a whole number from {least} on"
                )


def submit(
    orders: Sequence[CellOrder], settings: SlurmSettings, *, name: str, code: Snapshot
) -> list[str]:
    """Submit cells that share a run root; returns the ids of the jobs.

    Args:
        orders: the cells, each once.
        settings: what to ask of the cluster.
        name: the jobs' name in the queue.
        code: the copy of the code that they run.
    """
    slurm_commands.require()
    run_root = Path(orders[0].run_root)
    groups = _cut(orders, settings.cells_per_job)
    jobs: list[str] = []
    for part in _cut(groups, slurm_commands.max_array_size() or len(groups)):
        ids = _submit_array(part, settings, name=name, code=code, run_root=run_root)
        names = [[o.name for o in group] for group in part]
        remember(run_root, ids, cells=names, code=str(code.source))
        jobs += ids
    slurm_commands.forget()
    return jobs


def _cut(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def _submit_array(
    groups: Sequence[Sequence[CellOrder]],
    settings: SlurmSettings,
    *,
    name: str,
    code: Snapshot,
    run_root: Path,
) -> list[str]:
    import submitit

    executor = submitit.SlurmExecutor(
        folder=run_root / LOGS, max_num_timeout=settings.max_timeouts, python=settings.python
    )
    executor.update_parameters(**_parameters(settings, name=name, code=code, run_root=run_root))
    todo = [SlurmJob(tuple(group), settings.signal_delay_s) for group in groups]
    try:
        with _outside_of_a_job(), executor.batch():
            jobs = [executor.submit(job) for job in todo]
        return [job.job_id for job in jobs]
    except submitit.core.utils.FailedJobError as error:
        lines = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        raise UserError(
            f"sbatch refused the jobs: {lines[-1].strip()}. Check hydra.launcher.partition, "
            "account, qos, gpus_per_node, mem_gb and timeout_min against `sinfo` and `sacctmgr "
            "show assoc`; what was submitted before goes on"
        ) from error


@contextmanager
def _outside_of_a_job() -> Iterator[None]:
    """Without the variables of a job that we may be in: they would contradict what is asked."""
    inside = "SLURM_JOB_ID" in os.environ
    named = [n for n in os.environ if n.startswith("SLURM_") and n != "SLURM_CONF" and inside]
    kept = {name: os.environ.pop(name) for name in named}
    try:
        yield
    finally:
        os.environ.update(kept)


def _parameters(
    settings: SlurmSettings, *, name: str, code: Snapshot, run_root: Path
) -> dict[str, Any]:
    """What the batch script asks for, and its lines before and after the work."""
    wanted = {
        "job_name": name,
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "gpus_per_node": settings.gpus_per_node,
        "cpus_per_task": settings.cpus_per_task,
        "mem": None if settings.mem_gb is None else f"{int(settings.mem_gb * 1024)}MB",
        "time": settings.timeout_min,
        "array_parallelism": settings.array_parallelism,
        "signal_delay_s": settings.signal_delay_s,
        "ntasks_per_node": 1,
        "additional_parameters": {"requeue": True} | settings.additional_parameters,
        "setup": [*_environment(code), *settings.setup],
        "teardown": _again(run_root, settings.max_restarts),
        "stderr_to_stdout": True,
        "srun_args": [f"--cpus-per-task={settings.cpus_per_task}"],
    }
    return {key: value for key, value in wanted.items() if value is not None}


def _environment(code: Snapshot) -> list[str]:
    """The job imports the copy, not what the editor holds that day."""
    path = shlex.quote(str(code.source))
    return [f'export PYTHONPATH={path}"${{PYTHONPATH:+:$PYTHONPATH}}"']


def _again(run_root: Path, restarts: int) -> list[str]:
    """Lines that put a job back whose process was killed, at most ``restarts`` times."""
    notes = shlex.quote(str(run_root / FOLDER / "killed"))
    codes = "|".join(map(str, _KILLED))
    return [
        "code=$?",
        f"case $code in {codes})",
        f"  mkdir -p {notes}",
        f'  job={_OWN_JOB}; note={notes}/"$job"',
        '  echo "$code" >> "$note"',
        f'  if [ "$(wc -l < "$note")" -le {restarts} ] &&',
        '     scontrol -o show job "$job" | grep -q "JobState=RUNNING"; then',
        '    echo "killed (exit code $code): the job is put back into the queue"',
        '    scontrol requeue "$job"',
        "  fi;;",
        "esac",
        "exit $code",
    ]
