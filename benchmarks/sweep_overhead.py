"""What a sweep costs a cell beside its training: compose, launch, record.

    python -m benchmarks.sweep_overhead [--cells 10 100 1000] [--launchers in-process slurm]

The cells are real ones of ``quickstart``, but training and test are replaced by writing a result,
in every process: torch is not even imported. Wall time on an otherwise idle machine. SLURM is one
of virtual nodes, started here (where it is installed), so its times are those of this machine's
cores and of SLURM's own scheduling.

Ends with 1 where an in-process cell takes more than half a second, or where a cell of the largest
sweep takes half as long again as one of a sweep of a hundred: growth is to be linear.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

LAUNCHERS = {
    "in-process": ("hydra/launcher=basic",),
    "joblib": ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
    "gpu_local": ("hydra/launcher=gpu_local",),
    "submitit_local": ("hydra/launcher=submitit_local",),
    "slurm": (
        "hydra/launcher=slurm", "hydra.launcher.gpus_per_node=null", "hydra.launcher.mem_gb=0.5",
        "hydra.launcher.cpus_per_task=1", "hydra.launcher.poll_seconds=2",
    ),
}  # fmt: skip
# It starts all processes at once, whatever the machine has.
MOST = {"submitit_local": 100}
_ROWS = 4  # cells of quickstart a seed
_LONGEST = 0.5  # seconds a cell in-process, where starting Python no longer counts
_GROWTH = 1.5
_MANY = 100

# Python runs a module of this name at its start.
_NOTHING = """
import semimedref.run as run

def nothing(cfg, plain, folder, me, on_epoch, start):
    scores = {"dice": 0.5, "miou": 1 / 3}
    best = {"epoch": 1, "val/dice": 0.5}
    result = {"status": "done", "config": plain, "test": scores, "best": best}
    folder.write_json("result.json", result)
    return result

run._train_and_test = nothing
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for every launcher and number of cells."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep_overhead")
    parser.add_argument("--cells", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--launchers", nargs="+", default=list(LAUNCHERS), choices=LAUNCHERS)
    asked = parser.parse_args(arguments)
    print(f"{'launcher':16s}{'cells':>7s}{'seconds':>10s}{'a cell':>9s}{'again':>9s}", flush=True)
    found: dict[str, dict[int, float]] = {}
    with TemporaryDirectory() as folder:
        (Path(folder) / "sitecustomize.py").write_text(_NOTHING)
        for name in asked.launchers:
            with _cluster(name, Path(folder)) as environment:
                for cells in asked.cells:
                    if cells <= MOST.get(name, cells):
                        seconds = _line(name, cells, Path(folder), environment)
                        found.setdefault(name, {})[cells] = seconds / cells
    problems = [line for name, a_cell in found.items() for line in misses(name, a_cell)]
    print("\n".join(problems))
    return 1 if problems else 0


def misses(name: str, a_cell: dict[int, float]) -> list[str]:
    """What falls short in the seconds a cell of one launcher, by number of cells."""
    large = {n: seconds for n, seconds in a_cell.items() if n >= _MANY}
    lines = []
    if name == "in-process":
        lines += [
            f"{name}: {seconds:.2f} s a cell of {n}, expected at most {_LONGEST}"
            for n, seconds in large.items()
            if seconds > _LONGEST
        ]
    if large and large[max(large)] > _GROWTH * large[min(large)]:
        lines.append(
            f"{name}: a cell of {max(large)} takes {large[max(large)]:.2f} s, one of {min(large)} "
            f"{large[min(large)]:.2f} s: growth is not linear"
        )
    return lines


def _line(name: str, cells: int, folder: Path, environment: dict[str, str]) -> float:
    """Measure one sweep; returns its seconds."""
    root = folder / f"{name}-{cells}"
    environment = environment | {"SEMIMEDREF_CACHE": str(root / "cache")}
    environment["PYTHONPATH"] = str(folder)
    seeds = ",".join(map(str, range(-(-cells // _ROWS))))
    words = ["experiment=quickstart", f"seed.value={seeds}", f"run_root={root}", "tracking=off"]
    words += ["hardware=cpu", *LAUNCHERS[name]]
    if cells % _ROWS:  # a list that every cell's configuration holds: not where it is long
        words.append(f"only=[{','.join(map(str, range(cells)))}]")
    first = _timed(words, environment)
    done = len(list(root.glob("*/result.json")))
    if done != cells:
        raise AssertionError(f"{name}: {done} of {cells} cells are done")
    again = _timed(words, environment)
    print(f"{name:16s}{cells:7d}{first:10.1f}{first / cells:9.3f}{again:9.2f}", flush=True)
    return first


def _timed(words: Sequence[str], environment: dict[str, str]) -> float:
    command = [sys.executable, "-m", "semimedref.cli", "train", "-m", *words]
    started = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


@contextmanager
def _cluster(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of the commands; with a SLURM of two nodes where it is asked for."""
    if name != "slurm":
        yield dict(os.environ)
        return
    from tests.slurm.cluster import Cluster

    made = Cluster(folder / "cluster", nodes=2, cpus=1)
    try:
        yield made.environment
    finally:
        made.close()


if __name__ == "__main__":
    sys.exit(main())
