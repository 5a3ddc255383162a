"""Which cells wait in SLURM's queue, and whose jobs have vanished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from semimedref.errors import UserError
from semimedref.folder import STOPPED
from semimedref.launch import slurm_commands
from semimedref.launch.submission import jobs_of_cells, log_of, submitters
from semimedref.results.store import State, is_lost

WAITS, RUNS, GONE = "waits", "runs", "gone"


@dataclass(frozen=True)
class Place:
    """Where the job of a cell is: ``waits``, ``runs`` or ``gone``, and SLURM's reason to wait."""

    job: str
    at: str
    reason: str = ""


def require_answer(run_root: Path) -> None:
    """Refuse to submit while SLURM does not say what is in its queue already."""
    if jobs_of_cells(run_root) and slurm_commands.queued_jobs(submitters(run_root)) is None:
        raise UserError(
            "squeue gives no answer, and cells were submitted before: nothing is submitted twice; "
            "try `squeue --me`, then the same command again"
        )


def places(run_root: Path) -> dict[str, Place]:
    """Where every submitted cell is now; empty where nothing was submitted or SLURM is silent.

    One question to SLURM, however many cells there are.
    """
    jobs = jobs_of_cells(run_root)
    if not jobs:
        return {}
    queued = slurm_commands.queued_jobs(submitters(run_root))
    if queued is None:
        return {}
    found = {}
    for name, job in jobs.items():
        now = queued.get(job)
        if now is None and is_stopped(run_root / name):
            continue
        if now is None:
            found[name] = Place(job, GONE)
        else:
            found[name] = Place(job, WAITS if now.waits else RUNS, now.reason)
    return found


def is_stopped(folder: Path) -> bool:
    """Whether a search has ended the run early: its job is gone, and nothing is lost."""
    return (folder / STOPPED).exists()


def seen(found: State, place: Place | None) -> State:
    """The state of a cell whose folder says ``found``, with what SLURM says of its job."""
    if place is None or found in ("done", "running"):
        return found
    if place.at == GONE:
        return "failed"
    return "queued" if place.at == WAITS else "running"


def is_taken_away(folder: Path, found: State, place: Place | None) -> bool:
    """Whether a cell has no result because its job was cancelled or lost, and not by its error."""
    if found == "failed":
        return is_lost(folder) and (place is None or place.at == GONE)
    return found in ("missing", "paused") and place is not None and place.at == GONE


def lost_reason(run_root: Path, place: Place) -> str:
    """Why a job that is gone left no result."""
    log = log_of(run_root, place.job)
    told = f"its output is in {log}" if log.exists() else "it had not started"
    return (
        f"SLURM job {place.job} {slurm_commands.end_of(place.job)}; {told}; "
        "the same train command continues the cell"
    )
