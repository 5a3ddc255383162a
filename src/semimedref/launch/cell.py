"""One cell in a process of its own: what a SLURM job or a local GPU runs."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

CELL_COMMAND = "_cell"  # of the command line, for launchers only
PARENT = "SEMIMEDREF_LAUNCHER"  # the process without which a cell is not to go on
_PR_SET_PDEATHSIG = 1  # of prctl(2)


@dataclass(frozen=True)
class CellOrder:
    """What a process needs to know to train one cell.

    Attributes:
        name: its run folder, in ``run_root``.
        run_root: the folder of all runs, absolute: a job may start elsewhere.
        overrides: the words that compose it.
        flags: further words for Hydra, e.g. ``--config-dir FOLDER``.
    """

    name: str
    run_root: str
    overrides: tuple[str, ...]
    flags: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the run is, or will be."""
        return Path(self.run_root) / self.name


def run_cell(order: CellOrder) -> float | None:
    """Train one cell in this process; returns what its run returns."""
    from semimedref.application import run_application
    from semimedref.expansion import hydra_value
    from semimedref.run import run

    scores: list[float] = []
    kept = [o for o in order.overrides if not o.startswith("run_root=")]
    words = [*order.flags, *kept, f"run_root={hydra_value(order.run_root)}"]
    run_application(words, lambda cfg: scores.append(run(cfg)))
    return scores[0] if scores else None


def write_order(order: CellOrder, path: Path) -> Path:
    """Keep an order as a file, for ``command_of``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(order), indent=1) + "\n")
    return path


def read_order(path: Path) -> CellOrder:
    """The order that a file holds."""
    found = json.loads(path.read_text())
    return CellOrder(
        found["name"], found["run_root"], tuple(found["overrides"]), tuple(found["flags"])
    )


def command_of(order: Path) -> list[str]:
    """The command that runs the cell of a file."""
    return [sys.executable, "-m", "semimedref.cli", CELL_COMMAND, str(order)]


def cell_command(args: list[str]) -> int:
    """Run the cell of a file."""
    _leave_with_the_launcher()
    run_cell(read_order(Path(args[0])))
    return 0


def _leave_with_the_launcher() -> None:
    """Have the kernel send SIGTERM, so that the cell saves, when the launcher dies in any way."""
    parent = os.environ.pop(PARENT, None)
    if parent is None:
        return
    with suppress(OSError, AttributeError):  # not on every system
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
