"""Run the benchmarks and print the ratios.   python -m benchmarks [NAME ...] [--json FILE]."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.measure import Comparison
from benchmarks.size import FULL, Size
from benchmarks.table import render

NAMES = (
    "text",
    "data",
    "files",
    "ema",
    "bootstrap",
    "expansion",
    "results",
    "tracking",
    "student_pass",
    "step",
)

_HOW = """\
CPU time of one thread (time.process_time): other jobs on the machine count little, though they
share its caches and memory; waiting for a disk does not count. Median and range of n repeats, both
ways in turn in one process. Before it is timed, each pair is checked to give the same result.
ratio = obvious / ours: 2 is twice as fast, 1 is no gain."""


def main(arguments: Sequence[str] | None = None, *, size: Size = FULL) -> int:
    """Print the table; with ``--json`` also write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    parser.add_argument(
        "--paper-batch", type=int, metavar="N", default=size.paper_batch,
        help=f"labeled images of the step at the paper's shapes ({size.paper_batch}; paper: 32)",
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}: expected {', '.join(NAMES)}")
    sized = replace(size, paper_batch=asked.paper_batch)
    _one_thread()
    started = time.monotonic()
    rows: list[Comparison] = []
    for name in asked.names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"benchmarks.{name}").run(sized)
    machine = _machine()
    print("  ".join(f"{key} {value}" for key, value in machine.items()))
    print(_HOW, render(rows), sep="\n\n")
    print(f"\n{time.monotonic() - started:.0f} s in all")
    if asked.json is not None:
        report = {"clock": "time.process_time", "threads": 1, "environment": machine}
        report["results"] = [asdict(row) for row in rows]
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def _one_thread() -> None:
    """To be called before NumPy and torch are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    import torch

    torch.set_num_threads(1)


def _machine() -> dict[str, str]:
    from semimedref import __version__
    from semimedref.environment import environment

    found = environment()
    load = {"load": " ".join(f"{part:.1f}" for part in os.getloadavg())}
    names = ("processor", "torch", "numpy")
    return {"semimedref": __version__} | {k: found[k] for k in names} | load


if __name__ == "__main__":
    sys.exit(main())
