"""What runs on the node: the cells of one job, and what a signal means there.

submitit loads this class from its pickle. It knows a time-out only by the clock, and calls every
signal a time-out in a job of ten minutes or less; SLURM itself is asked here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from semimedref.cores import number_in
from semimedref.launch import slurm_commands
from semimedref.launch.cell import CellOrder, command_of, run_cell, write_order
from semimedref.launch.submission import FOLDER

_PATIENCE = 30.0  # seconds after SIGTERM in which SLURM must say what it wants
_EARLY = 65.0  # seconds that SLURM may send its signal before the asked time
_ENDING = ("CANCELLED", "COMPLETING", "FAILED", "TIMEOUT", "DEADLINE")


@dataclass
class SlurmJob:
    """The cells of one job; several share its node and its GPU."""

    cells: tuple[CellOrder, ...]
    signal_delay_s: int

    def __call__(self) -> list[float | None]:
        """Train the cells; called by submitit on the node."""
        self._started = time.time()
        self._submitit = signal.getsignal(signal.SIGUSR2)
        handler = getattr(self._submitit, "__self__", None)
        if handler is not None:
            handler.has_timed_out = self._timed_out
        signal.signal(signal.SIGTERM, self._terminated)
        cores = number_in("SLURM_CPUS_PER_TASK")
        if cores and len(self.cells) > 1:  # one cell alone takes what helps it
            os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // len(self.cells))))
        if len(self.cells) == 1:
            return [run_cell(self.cells[0])]
        return self._together()

    def checkpoint(self) -> Any:  # noqa: ANN401 - submitit's submission, or None: do not come back
        """What to submit again when SLURM takes the node away; called by submitit."""
        from submitit.helpers import DelayedSubmission

        if self._timed_out() and not any(self._has_saved(cell) for cell in self.cells):
            print("timed out before anything was saved: raise hydra.launcher.timeout_min")
            return None
        return DelayedSubmission(SlurmJob(self.cells, self.signal_delay_s))

    def _timed_out(self) -> bool:
        return is_timed_out(slurm_commands.job_facts(_own_job()), delay=self.signal_delay_s)

    def _has_saved(self, cell: CellOrder) -> bool:
        saved = [cell.folder / name for name in ("last.pt", "result.json")]
        return any(f.exists() and f.stat().st_mtime >= self._started for f in saved)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM comes with ``scancel``, with a requeue and with a preemption: ask which it is."""
        give_up = time.monotonic() + _PATIENCE
        while time.monotonic() < give_up:
            facts = slurm_commands.job_facts(_own_job())
            if facts.get("JobState") in _ENDING or int(facts.get("Restarts", 0)) > _restarts():
                break  # cancelled, or back in the queue already
            if is_preempted(facts) and callable(self._submitit):
                with suppress(subprocess.SubprocessError):  # the controller may have been faster
                    self._submitit(signal.SIGUSR2, frame)  # requeues and leaves
                break
            time.sleep(2)
        sys.exit(128 + number)

    def _together(self) -> list[float | None]:
        """One process a cell; signals are passed on, and all have saved before the job leaves."""
        received: list[tuple[int, FrameType | None]] = []
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, lambda n, frame: received.append((n, frame)))
        folder = Path(self.cells[0].run_root) / FOLDER / "orders"
        children = [_start(cell, folder) for cell in self.cells]
        told = 0
        while any(child.poll() is None for child in children):
            for number, _ in received[told:]:
                for child in children:
                    child.send_signal(number)
            told = len(received)
            time.sleep(0.2)
        if received:
            asked = [one for one in received if one[0] == signal.SIGUSR2]
            number, frame = (asked or received)[-1]
            if number == signal.SIGUSR2 and callable(self._submitit):
                self._submitit(number, frame)
            self._terminated(number, frame)
        failed = [c.name for c, p in zip(self.cells, children, strict=True) if p.returncode]
        killed = [p.returncode for p in children if p.returncode < 0]
        if killed:  # the batch script starts the job again
            os.kill(os.getpid(), signal.SIGKILL)
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(children)} cells failed: {failed}")
        return [None] * len(children)


def is_timed_out(facts: dict[str, str], *, delay: float) -> bool:
    """Whether a signal comes from the time limit: its end is near, and nobody else wants the node.

    Without an answer of the controller it counts as one, so that a job cannot come back for ever.
    """
    if is_preempted(facts):
        return False
    try:
        end = datetime.fromisoformat(facts["EndTime"]).timestamp()
    except (KeyError, ValueError):
        return True
    return end - time.time() <= delay + _EARLY


def is_preempted(facts: dict[str, str]) -> bool:
    """Whether the controller takes the node away for a more urgent job."""
    return facts.get("PreemptTime", "None") not in ("None", "Unknown", "N/A")


def _own_job() -> str:
    """This task alone: of one task, the bare job id is that of its array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{part}_ID") for part in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else os.environ["SLURM_JOB_ID"]


def _restarts() -> int:
    return int(os.environ.get("SLURM_RESTART_COUNT", 0))


def _start(cell: CellOrder, folder: Path) -> subprocess.Popen[bytes]:
    order = write_order(cell, folder / f"{cell.name}.json")
    return subprocess.Popen(command_of(order))
