"""The table and the state of thousands of stored runs: with the index against reading everything.

The runs are made here: a real configuration, a result of the usual size and ``per_image.csv`` of a
test set that is smaller than the paper's, so that the obvious way takes a minute and no hour.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.measure import Comparison, cache_in, seconds
from benchmarks.size import Size
from semimedref.results import render
from semimedref.results.comparison import compare_rows
from semimedref.results.status import render_status
from semimedref.results.table import build_table
from semimedref.sweep import Cell, Experiment, expand

_IMAGES_A_PATIENT = 4
_EPOCHS = 40
_TICK = 1.1  # seconds after which the index trusts that a file has its time of modification


def run(size: Size) -> list[Comparison]:
    """Expanding the experiment and imports are not counted; the cache is warm or empty."""
    with TemporaryDirectory() as root:
        experiment = _made(size, Path(root) / "multirun")
        time.sleep(_TICK)
        caches = (Path(root) / f"cache{i}" for i in count())
        what = f"{len(experiment.cells):,} runs"
        images = size.stored_patients * _IMAGES_A_PATIENT
        shape = "{} rows × {} columns × {} seeds".format(*size.stored)
        note = f"{shape}; {images} images of {size.stored_patients} patients each; "
        note += f"{size.replicates:,} replicates of each test"
        return [
            _comparison(what, "status", lambda: render_status(experiment), caches, size, ""),
            _comparison(what, "table", lambda: _table(experiment), caches, size, note),
        ]


def _table(experiment: Experiment) -> str:
    """What ``semimedref table`` prints, with fewer replicates."""
    table = build_table(experiment)
    tests = compare_rows(table)
    return render.terminal(table, tests, style=False)


def _comparison(
    what: str,
    name: str,
    way: Callable[[], str],
    caches: Iterator[Path],
    size: Size,
    note: str,
) -> Comparison:
    """One call with an empty cache, which takes long, and several with the one that it filled."""
    kept: list[str] = []
    with cache_in(next(caches)):
        slow = seconds(lambda: kept.append(way()))
        quick = [seconds(lambda: kept.append(way())) for _ in range(size.least_repeats)]
    if len(set(kept)) != 1:
        raise AssertionError(f"{name}: what the index remembers differs from what is read")
    middle = sorted(quick)[len(quick) // 2]
    return Comparison(
        benchmark="results",
        case=f"{name}, {what}",
        ours=f"{name}, warm index",
        obvious="read and compute everything",
        ours_seconds=middle,
        obvious_seconds=slow,
        ratio=slow / middle,
        ratio_low=slow / max(quick),
        ratio_high=slow / min(quick),
        repeats=len(quick),
        note=note,
    )


def _made(size: Size, root: Path) -> Experiment:
    """An experiment all of whose cells are finished."""
    plain = expand(list(size.sweeps[0])).cells[0].config
    rng = np.random.default_rng(0)
    truth = rng.integers(100, 600, size.stored_patients * _IMAGES_A_PATIENT)
    cells = []
    for row, column, seed in product(*map(range, size.stored)):
        point = {"ratio": f"{column + 1}pct", "seed": f"s{seed}"}
        mark = hashlib.sha1(f"{row} {column} {seed}".encode()).hexdigest()[:12]
        changed = {"ratio": {"fraction": (column + 1) / 100}, "seed": {"value": seed}}
        name = f"phantom-{point['ratio']}-mmi_unet-teacher_student-s{seed}-{mark}"
        cell = Cell(f"Row {row + 1}", point, (), plain | changed, mark, name)
        _finish(cell, root / name, truth, rng)
        cells.append(cell)
    times = size.replicates
    often = {"bootstrap": times, "randomization": times, "seed": 0, "locked": ""}
    return Experiment(
        "stored", "Stored runs", ["ratio"], "seed", ["dice", "miou"], root, cells, statistics=often
    )


def _finish(cell: Cell, folder: Path, truth: np.ndarray, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    tp = rng.binomial(truth, 0.8)
    fp, fn = rng.integers(0, 200, len(truth)), truth - tp
    rows = zip(tp.tolist(), fp.tolist(), fn.tolist(), strict=True)
    lines = (
        f"test-p{i // _IMAGES_A_PATIENT:04d}-{i % _IMAGES_A_PATIENT},"
        f"test-p{i // _IMAGES_A_PATIENT:04d},{a},{b},{c},{2 * a / (2 * a + b + c):.6f}\n"
        for i, (a, b, c) in enumerate(rows)
    )
    (folder / "per_image.csv").write_text("id,patient,tp,fp,fn,dice\n" + "".join(lines))
    dice = float(2 * tp.sum() / (2 * tp.sum() + fp.sum() + fn.sum()))
    (folder / "result.json").write_text(json.dumps(_result(cell, dice), indent=1))


def _result(cell: Cell, dice: float) -> dict[str, object]:
    packages = ("torch", "numpy", "timm", "transformers", "hydra-core", "omegaconf")
    return {
        "status": "done",
        "signature": cell.signature,
        "name": cell.name,
        "config": cell.config,
        "experiment": "stored",
        "row": cell.row,
        "version": "0.1.0",
        "git_commit": "0123456789ab",
        "data": {},
        "environment": {"python": "3.11", "platform": "Linux"} | dict.fromkeys(packages, "1.0"),
        "precision": {"training": "fp32", "deterministic": True, "threads": 1},
        "device": "cpu",
        "wall_seconds": 100 + 100 * dice,
        "peak_memory_bytes": 2**30,
        "parameters": {"total": 28_412_215, "trainable": 5_846_839},
        "epochs": _EPOCHS,
        "steps": 20 * _EPOCHS,
        "best": {"epoch": _EPOCHS, "val/dice": dice},
        "finished": 1.7e9 + dice,
        "test": {"dice": dice, "miou": dice / (2 - dice), "text_gap": dice / 2},
    }
