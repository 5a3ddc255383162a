"""How much slower training becomes beside other work.

    python -m benchmarks.contention [--epochs 1] [--repeats 3]

One run and a sweep of four cells at scale=cpu on the phantom, each as the command line starts it,
alone and beside a process that computes without a pause on one core. Wall time, both in turn; the
machine must be quiet otherwise. A sweep keeps every core busy, so on two cores the busy process
takes a third of the machine from it: 1.5 times is what a fair scheduler gives.

Ends with 1 where work beside it makes a run or a sweep more than 1.6 times slower.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

MOST = 1.6
KINDS = {"one run": ("method=teacher_student",), "four cells": ("-m", "experiment=quickstart")}
_BUSY = "while True: pass"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for a run and one for a sweep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contention")
    parser.add_argument("--epochs", type=int, default=1, help="of each run; 50 steps each")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args(arguments)
    print(f"{'':12s}{'quiet':>9s}{'beside':>9s}{'times':>8s}", flush=True)
    worst = 0.0
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "SEMIMEDREF_CACHE": f"{folder}/cache"}
        size = [f"scale.epochs={asked.epochs}", "tracking=off", "hardware=cpu", "overlays=never"]
        _train(Path(folder), ["method=supervised", "augment=none", "scale.epochs=1", *size[1:]],
               environment)  # draws the phantom  # fmt: skip
        for name, words in KINDS.items():
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(asked.repeats):
                for beside in seconds:
                    with busy() if beside else nullcontext():
                        took = _train(Path(folder), [*words, *size], environment)
                    seconds[beside].append(took)
            quiet, disturbed = (statistics.median(seconds[key]) for key in (False, True))
            worst = max(worst, disturbed / quiet)
            print(f"{name:12s}{quiet:8.1f}s{disturbed:8.1f}s{disturbed / quiet:8.2f}", flush=True)
    if worst > MOST:
        print(f"expected at most {MOST} times")
    return int(worst > MOST)


@contextmanager
def busy() -> Iterator[None]:
    """A process that computes without a pause."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _train(folder: Path, words: Sequence[str], environment: dict[str, str]) -> float:
    root = folder / f"runs-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "semimedref.cli", "train", *words, f"run_root={root}"]
    started = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
