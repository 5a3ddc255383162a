"""Run one check in a process of its own, within its time, and read what it found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semimedref.gpu_check.finding import FAILED, OK, SKIPPED, Finding

_TAIL = 12  # lines of a crashed process that go into the report


@dataclass(frozen=True)
class Outcome:
    """A check with all that it found."""

    name: str
    findings: list[Finding]
    seconds: float

    @property
    def state(self) -> str:
        """Failed if anything failed; skipped if there was nothing to look at."""
        states = {finding.state for finding in self.findings}
        return FAILED if FAILED in states else OK if OK in states else SKIPPED

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        found = [finding.plain() for finding in self.findings]
        seconds = round(self.seconds, 1)
        return {"name": self.name, "state": self.state, "seconds": seconds, "findings": found}


def run_check(
    name: str, settings: Mapping[str, Any], *, folder: Path, minutes: float | None = None
) -> Outcome:
    """Start a check and wait for it, at most as long as its settings (or ``minutes``) say."""
    minutes = settings["minutes"][name] if minutes is None else minutes
    work = folder / name
    work.mkdir(parents=True)
    out, log, task = (work / f for f in ("findings.jsonl", "log.txt", "task.json"))
    given = {"settings": dict(settings), "folder": str(work), "out": str(out)}
    task.write_text(json.dumps(given))
    start = time.monotonic()
    ended = _wait([name, str(task)], log=log, seconds=60 * minutes)
    lines = out.read_text().splitlines() if out.exists() else []
    found = [Finding(**json.loads(line)) for line in lines]
    if ended != 0:
        found.append(_broken_off(name, ended, log=log, minutes=minutes))
    return Outcome(name, found, time.monotonic() - start)


def _wait(args: list[str], *, log: Path, seconds: float) -> int | None:
    """The exit code, or None if the time was over; whatever it started ends with it."""
    command = [sys.executable, "-m", "semimedref.gpu_check.child", *args]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _broken_off(name: str, ended: int | None, *, log: Path, minutes: float) -> Finding:
    tail = log.read_text(errors="replace").splitlines()[-_TAIL:]
    if ended is None:
        what, advice = f"not done after {minutes:g} minutes", f"raise gpu_check.minutes.{name}"
    elif ended < 0:
        what, advice = f"killed by {signal.Signals(-ended).name}", "is there enough host memory?"
    else:
        what, advice = f"ended with code {ended}: {tail[-1] if tail else ''}", "send us the report"
    return Finding("", FAILED, what, "a check that ends", advice, {"log": tail})
