"""Resampling: matrix products over patients against a loop over replicates that sums images."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.measure import Comparison, compare
from benchmarks.size import Size
from semimedref.results.significance import (
    PairedTest,
    bootstrap_ci,
    draw_swaps,
    global_dice,
    paired_test,
)

_SEED = 0


def run(size: Size) -> list[Comparison]:
    """Both ways draw the same random numbers and must give the same interval and p value."""
    a, b = _results(size.patients)
    n = size.replicates
    what = f"{len(a)} images, {size.patients} patients, {n:,} replicates"
    ci = (lambda: bootstrap_ci([a], replicates=n, seed=_SEED)), (lambda: _slow_ci(a, n))
    pair = (lambda: paired_test(a, b, replicates=n, seed=_SEED)), (lambda: _slow_test(a, b, n))
    rows = []
    for name, (ours, obvious) in (("bootstrap_ci", ci), ("paired_test", pair)):
        if ours() != obvious():
            raise AssertionError(f"{name}: {ours()} is not {obvious()} of the loop")
        rows.append(
            compare(
                "bootstrap",
                what,
                ours=(f"{name}, vectorised", ours),
                obvious=("loop over replicates", obvious),
                size=size,
            )
        )
    return rows


def _results(patients: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two methods on two images of each patient."""
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(patients), 2)
    truth = rng.integers(100, 600, len(owner))
    frames = []
    for quality in (0.80, 0.78):
        tp = rng.binomial(truth, quality)
        counts = {"tp": tp, "fp": rng.integers(0, 200, len(owner)), "fn": truth - tp}
        names = {"id": [f"i{i}" for i in range(len(owner))], "patient": [f"p{p}" for p in owner]}
        frames.append(pd.DataFrame(names | counts))
    return frames[0], frames[1]


def _slow_ci(frame: pd.DataFrame, replicates: int) -> tuple[float, float]:
    rows, counts = _rows_by_patient(frame), _counts(frame)
    rng = np.random.default_rng(_SEED)
    dice = []
    for _ in range(replicates):
        drawn = _draw(rng, rows)
        dice.append(float(global_dice(counts[drawn].sum(0))))
    low, high = np.percentile(dice, (2.5, 97.5))
    return float(low), float(high)


def _slow_test(a: pd.DataFrame, b: pd.DataFrame, replicates: int) -> PairedTest:
    rows, first, second = _rows_by_patient(a), _counts(a), _counts(b)
    rng = np.random.default_rng(_SEED)
    drawn = []
    for _ in range(replicates):
        at = _draw(rng, rows)
        drawn.append(_difference(first[at], second[at]))
    low, high = np.percentile(drawn, (2.5, 97.5))
    observed = _difference(first, second)
    place = np.empty(len(a), dtype=np.int64)  # the patient of each image
    for patient, images in enumerate(rows):
        place[images] = patient
    extreme = 0
    for swap in draw_swaps(rng, replicates, len(rows)):
        swapped = swap[place][:, None] > 0
        d = _difference(np.where(swapped, second, first), np.where(swapped, first, second))
        extreme += abs(d) >= abs(observed) - 1e-12
    return PairedTest(observed, float(low), float(high), (1 + extreme) / (replicates + 1))


def _rows_by_patient(frame: pd.DataFrame) -> list[np.ndarray]:
    return [np.asarray(rows) for _, rows in sorted(frame.groupby("patient").indices.items())]


def _counts(frame: pd.DataFrame) -> np.ndarray:
    return frame[["tp", "fp", "fn"]].to_numpy(dtype=np.float64)


def _draw(rng: np.random.Generator, rows: list[np.ndarray]) -> np.ndarray:
    """The images of as many drawn patients as there are."""
    return np.concatenate([rows[p] for p in rng.integers(len(rows), size=len(rows))])


def _difference(first: np.ndarray, second: np.ndarray) -> float:
    return float(global_dice(first.sum(0)) - global_dice(second.sum(0)))
