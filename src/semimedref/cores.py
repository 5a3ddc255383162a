"""How many cores this process may use, and how many threads a run takes of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cores() -> int:
    """Cores that this process may use.

    The smallest of: the cores it may be scheduled on, the cores of its SLURM task, and the CPU
    limit of its cgroup (a container, a systemd slice), rounded up.
    """
    found: list[float] = [len(os.sched_getaffinity(0)), *_cgroup_limits()]
    asked = number_in("SLURM_CPUS_PER_TASK")
    return max(1, math.ceil(min(found if asked is None else [*found, asked])))


def number_in(variable: str) -> int | None:
    """A whole number from 1 on in an environment variable, else None.

    ``OMP_NUM_THREADS=4,2`` names threads of nested regions: the first number is ours.
    """
    text = os.environ.get(variable, "").partition(",")[0].strip()
    return int(text) if text.isdigit() and int(text) > 0 else None


def threads_of(asked: int | None, *, most: int | None) -> int:
    """Threads of torch for a run.

    Args:
        asked: ``hardware.threads``, which goes before everything else.
        most: threads beyond which a run of this size gains nothing; None: every core helps.
    """
    given = asked or number_in("OMP_NUM_THREADS")
    return given or min(cores(), most or math.inf)


def _cgroup_limits() -> Iterator[float]:
    """Cores that the cgroup of this process and those above it allow; empty without a limit."""
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / controllers  # version 2 has one tree without a name
        for folder in (inner := root / path.lstrip("/"), *inner.parents):
            if folder.is_relative_to(root):
                yield from _limit(folder)


def _limit(folder: Path) -> Iterator[float]:
    """The limit of one cgroup: quota / period of version 2 (``cpu.max``) or version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        if float(quota) > 0:
            yield float(quota) / float(period)
    except (OSError, ValueError):  # no such file, or "max": no limit
        return
