"""A user at the login node: commands, and what the cells left behind."""

import json
import os
import signal
import time
from pathlib import Path

from tests.command import ended, start
from tests.conftest import SMOKE, TIMES

# Two rows, two ratios and two seeds: eight cells. Each step is saved, so that a cell can be
# disturbed anywhere.
WORDS = (
    "experiment=quickstart", "seed=s0,s42", *SMOKE, "hardware.save_seconds=0", "scale.epochs=3",
)  # fmt: skip
ASKED = (
    "hydra/launcher=slurm", "hydra.launcher.gpus_per_node=null", "hydra.launcher.cpus_per_task=1",
    "hydra.launcher.mem_gb=1", "hydra.launcher.timeout_min=10", "hydra.launcher.signal_delay_s=30",
    "hydra.launcher.poll_seconds=1",
)  # fmt: skip


class Lab:
    """Runs the command line in a folder of its own."""

    def __init__(self, root: Path, cluster):
        self.root, self.cluster = root, cluster
        self.environment = {
            "SLURM_CONF": str(cluster.conf),
            "PATH": cluster.environment["PATH"],
            # Several cells on few cores: threads that fight would cost most of the time.
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *words):
        """A command in the background, and the file that it writes into."""
        log = self.root.parent / f"log-{time.monotonic_ns()}"
        options = {"cwd": str(self.root.parent), **self.environment}
        return start(log, *words, f"run_root={self.root}", **options), log

    def run(self, *words):
        """A command; returns exit code and output."""
        process, log = self.start(*words)
        return ended(process, seconds=600), log.read_text()

    def folders(self):
        return {f.name: f for f in self.root.iterdir() if not f.name.startswith((".", "tables"))}

    def jobs(self):
        """The run folder of every job."""
        from semimedref.launch.submission import jobs_of_cells

        return {job: self.root / name for name, job in jobs_of_cells(self.root).items()}

    def trains(self, job):
        """Whether a job's cell is inside its training loop, with something saved."""
        folder = self.jobs()[job]
        return (folder / "last.pt").exists() and self.owner(job) is not None

    def owner(self, job):
        """The process that trains a job's cell."""
        from semimedref.owner import signature

        found = signature(self.jobs()[job])
        return found.pid if found else None

    def hold(self, *jobs):
        """Stop the processes of jobs where they are, in the middle of training; by job."""
        pids = {}

        def all_are_held():
            for job in set(jobs) - set(pids):
                if self.trains(job):
                    pids[job] = self.owner(job)
                    os.kill(pids[job], signal.SIGSTOP)
            return len(pids) == len(jobs)

        self.cluster.wait(all_are_held, seconds=300, every=0.05)
        return pids

    def log(self, job):
        from semimedref.launch.submission import log_of

        return log_of(self.root, job).read_text()


def outcome(folder: Path):
    """All that two equal trainings must share: scores, counts of every image, every epoch's row."""
    result = json.loads((folder / "result.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        for name in TIMES:
            row.pop(name)
    return {
        "test": result["test"],
        "best": result["best"],
        "steps": result["steps"],
        "threads": result["precision"]["threads"],
        "rows": rows,
        "per_image": (folder / "per_image.csv").read_text(),
    }
