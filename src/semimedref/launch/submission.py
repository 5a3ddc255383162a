"""What was handed to SLURM: a small file a submission, so that nobody depends on the launcher."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from semimedref.files import write_atomic

FOLDER = ".slurm"  # in the run root
LOGS = f"{FOLDER}/logs/%A"  # of submitit, a folder a submission


@dataclass(frozen=True)
class Submission:
    """Some jobs that were submitted together: one array, or a single job.

    Attributes:
        job: SLURM's number of the array or the job.
        array: whether tasks are ``job_0``, ``job_1``, …; else the job itself is the only one.
        cells: the run folders' names of every task; several may share a task.
        submitted: seconds since 1970.
        code: the folder of the code that they run.
    """

    job: str
    array: bool
    cells: tuple[tuple[str, ...], ...]
    submitted: float
    code: str

    def tasks(self) -> dict[str, tuple[str, ...]]:
        """The cells of every job id, as ``squeue`` writes it."""
        if not self.array:
            return {self.job: self.cells[0]}
        return {f"{self.job}_{number}": names for number, names in enumerate(self.cells)}


def remember(
    run_root: Path, jobs: Sequence[str], *, cells: Sequence[Sequence[str]], code: str
) -> None:
    """Write down a submission."""
    job, _, task = jobs[0].partition("_")
    made = Submission(job, bool(task), tuple(map(tuple, cells)), time.time(), code)
    write_atomic(run_root / FOLDER / f"{job}.json", json.dumps(asdict(made)) + "\n")


def submissions(run_root: Path) -> list[Submission]:
    """All that is written down, the oldest first; a damaged file is passed over."""
    found = []
    for file in (run_root / FOLDER).glob("*.json"):
        try:
            read = json.loads(file.read_text())
            read["cells"] = tuple(map(tuple, read["cells"]))
            found.append(Submission(**read))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return sorted(found, key=lambda s: s.submitted)


def jobs_of_cells(run_root: Path) -> dict[str, str]:
    """The job that each cell was handed to last."""
    return {
        name: job
        for made in submissions(run_root)
        for job, names in made.tasks().items()
        for name in names
    }


def submitters(run_root: Path) -> list[int]:
    """The users who have submitted something from a run root, which colleagues may share."""
    return sorted({file.stat().st_uid for file in (run_root / FOLDER).glob("*.json")})


def log_of(run_root: Path, job: str) -> Path:
    """What a job has printed."""
    return run_root / FOLDER / "logs" / job.partition("_")[0] / f"{job}_0_log.out"
