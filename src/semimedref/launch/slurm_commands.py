"""Ask and tell SLURM; every answer is parsed here and nowhere else.

Nothing needs the accounting database: ``squeue`` and ``scontrol`` answer on every cluster.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from semimedref.errors import UserError

_RECENT = 1.0  # seconds that an answer of the queue may be old
_SECONDS = 60  # a busy controller may take that long for an answer
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
# What SLURM says of a job that has ended.
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
)  # fmt: skip


@dataclass(frozen=True)
class QueuedJob:
    """A job that SLURM has in its queue: waiting, running, or about to end."""

    job: str
    state: str
    reason: str

    @property
    def waits(self) -> bool:
        """Whether it has no node now."""
        return self.state in WAITING


def is_here() -> bool:
    """Whether this machine can talk to a SLURM."""
    return shutil.which("squeue") is not None


def queued_jobs(users: Sequence[int]) -> dict[str, QueuedJob] | None:
    """Jobs of some users by id (``12_3`` for a task of an array); None if SLURM is silent.

    Asked once for what one command shows of several tables.
    """
    return _queued_jobs(tuple(users), int(time.monotonic() / _RECENT))


@lru_cache(maxsize=1)
def _queued_jobs(users: tuple[int, ...], moment: int) -> dict[str, QueuedJob] | None:
    del moment
    if not is_here():
        return None
    asked = ",".join(map(str, users))
    words = ["squeue", "--noheader", "--array", f"--user={asked}", "--format=%i|%T|%r"]
    answer = _ask(words)
    if answer is None:
        return None
    lines = (line.split("|", 2) for line in answer.splitlines() if line.count("|") >= 2)
    return {job: QueuedJob(job, state, reason) for job, state, reason in lines}


def forget() -> None:
    """Ask the queue anew: something was submitted."""
    _queued_jobs.cache_clear()


def job_facts(job: str) -> dict[str, str]:
    """What the controller still knows of a job; nothing some minutes after its end."""
    return dict(re.findall(r"(\w+)=(\S+)", _ask(["scontrol", "-o", "show", "job", job]) or ""))


def end_of(job: str) -> str:
    """How a job ended, in words; the accounting database is asked if there is one."""
    facts = job_facts(job)
    state, code = facts.get("JobState", ""), facts.get("ExitCode", "")
    if state not in ENDED:
        words = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ExitCode"]
        lines = (_ask(words) or "").strip().splitlines() if shutil.which("sacct") else []
        state, _, code = (lines[-1] if lines else "").partition("|")
    if not state:
        return "has left the queue without a result"
    told = f" (exit code {code})" if code not in ("", "0:0") else ""
    return f"ended as {state}{told} without a result"


def max_array_size() -> int | None:
    """How many tasks an array may have; None if the cluster does not say."""
    found = re.search(r"MaxArraySize\s*=\s*(\d+)", _ask(["scontrol", "show", "config"]) or "")
    return int(found[1]) if found else None


def cancel_waiting(jobs: list[str]) -> None:
    """Take jobs out of the queue that have not started."""
    if jobs:
        _ask(["scancel", "--state=PENDING", *jobs])


def require() -> None:
    """Refuse a machine without SLURM."""
    missing = [name for name in ("sbatch", "squeue", "scontrol") if shutil.which(name) is None]
    if missing:
        raise UserError(
            f"hydra/launcher=slurm: {missing[0]} was not found; expected a login node of a SLURM "
            "cluster. On this machine use hydra/launcher=gpu_local"
        )


def _ask(words: list[str]) -> str | None:
    # Filters of the user's own (SQUEUE_STATES, SQUEUE_PARTITION, …) would hide jobs.
    plain = {key: value for key, value in os.environ.items() if not key.startswith("SQUEUE_")}
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, check=False, env=plain
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
