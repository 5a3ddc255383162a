"""Wait for cells on SLURM: by their folders and the queue, never by the order of submission."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from semimedref.folder import RunFolder
from semimedref.launch import slurm_commands
from semimedref.launch.queue import GONE, WAITS, Place, is_stopped, lost_reason, places, seen
from semimedref.results.store import state

_SETTLE = 90.0  # seconds until a shared disk shows what another node has written last
# Reasons to wait that do not pass by themselves: no node can ever serve the request.
_NEVER = {"PartitionConfig", "BadConstraints", "PartitionNodeLimit", "PartitionTimeLimit"}


def watch(run_root: Path, names: Sequence[str], *, poll_seconds: float, stop: bool) -> None:
    """Return when every cell is done, failed or lost; says so whenever the counts change.

    A lost job (cancelled, killed too often, its node gone) leaves a ``failure.json`` that says how
    it ended; the other cells go on.

    Args:
        run_root: the folder of all runs.
        names: the run folders to wait for.
        poll_seconds: between two looks.
        stop: whether the first failure takes the waiting cells out of the queue.
    """
    still, gone_since, told = list(names), {}, ""
    pause = min(2.0, poll_seconds)
    while still:
        queue = places(run_root)
        for name in list(still):
            found = state(run_root / name)
            place = queue.get(name)
            stopped = place is None and is_stopped(run_root / name)
            if found == "done" or stopped or (found == "failed" and _is_gone(place)):
                still.remove(name)
            elif found in ("missing", "paused") and place is not None and place.at == GONE:
                since = gone_since.setdefault(name, time.monotonic())
                if time.monotonic() - since >= min(_SETTLE, 9 * poll_seconds):
                    _lose(run_root, name, place)
                    still.remove(name)
            else:
                gone_since.pop(name, None)
        told = _tell(run_root, names, queue, told)
        if stop and any(state(run_root / n) == "failed" for n in names if n not in still):
            _take_out(queue, still)
            stop = False
        if still:
            time.sleep(pause)
            pause = min(poll_seconds, 1.5 * pause)


def _is_gone(place: Place | None) -> bool:
    return place is None or place.at == GONE


def _lose(run_root: Path, name: str, place: Place) -> None:
    reason = lost_reason(run_root, place)
    RunFolder.create(run_root / name).write_failure(reason, "", lost=True)
    print(f"{name}: {reason}", flush=True)


def _tell(run_root: Path, names: Sequence[str], queue: dict[str, Place], before: str) -> str:
    """A line with the counts if they have changed."""
    states = [seen(state(run_root / n), queue.get(n)) for n in names]
    counts = Counter(states)
    order = ("done", "running", "queued", "paused", "missing", "failed")
    line = ", ".join(f"{counts[s]} {s}" for s in order if counts[s])
    waiting = Counter(queue[n].reason for n in names if n in queue and queue[n].at == WAITS)
    del waiting["None"]  # SLURM has not looked at the job yet
    if waiting:  # Priority and Resources pass; a job that is held must be released by somebody
        line += f" ({', '.join(f'{n} {reason}' for reason, n in waiting.most_common())})"
    if set(waiting) & _NEVER:
        line += "; such a job never starts: `scancel` it, then submit with other settings"
    if line != before:
        print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)
    return line


def _take_out(queue: dict[str, Place], names: Sequence[str]) -> None:
    waiting = sorted({queue[n].job for n in names if n in queue and queue[n].at == WAITS})
    slurm_commands.cancel_waiting(waiting)
    print(f"on_error=stop: {len(waiting)} waiting jobs were cancelled", flush=True)
