"""Resampling: matrix products over patients against a loop over replicates that sums images.

The loop gets a fraction of the paper's replicates; ours is timed on the same fraction, and then on
all 50,000 + 200,000 of the paper, whose time and memory are in the note.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.measure import Comparison, compare, seconds
from benchmarks.size import Size
from semimedref.results.measures import PAPER, global_dice, global_miou
from semimedref.results.resampling import SWAPS, Resampling, draw_swaps, stream
from semimedref.results.significance import PairedTest, bootstrap_ci, paired_tests

_SEED = 0
_SWAPS_PER_DRAW = 4  # the paper: 200,000 swaps, 50,000 draws
_WHOLE = 25  # the paper's number of replicates over that of a full benchmark, 50,000 / 2,000
_IMAGES = 2113 / 474  # images of a patient, on average, in the QaTa-COV19 test set
_SCORES = {"dice": global_dice, "miou": global_miou}


def run(size: Size) -> list[Comparison]:
    """Both ways draw the same random numbers and must give the same interval and p value."""
    a, b = _results(size.patients)
    n = size.replicates
    what = f"{len(a)} images, {size.patients} patients, {n:,} draws"
    part, whole = _resampling(n), _resampling(n * _WHOLE)
    ci = (lambda: bootstrap_ci([a], replicates=n, seed=_SEED)), (lambda: _slow_ci(a, n))
    pair = (lambda: paired_tests([a], [b], resampling=part)), (lambda: _slow_tests(a, b, part))
    rows = []
    for name, case, (ours, obvious), note in (
        ("bootstrap_ci", what, ci, ""),
        ("paired_tests", f"{what}, {part.randomization:,} swaps", pair, _whole(a, b, whole)),
    ):
        if ours() != obvious():
            raise AssertionError(f"{name}: {ours()} is not {obvious()} of the loop")
        rows.append(
            compare(
                "bootstrap",
                case,
                ours=(f"{name}, vectorised", ours),
                obvious=("loop over replicates", obvious),
                size=size,
                note=note,
            )
        )
    return rows


def _resampling(draws: int) -> Resampling:
    swaps = draws * _SWAPS_PER_DRAW
    return Resampling(bootstrap=draws, randomization=swaps, seed=_SEED, locked="")


def _whole(a: pd.DataFrame, b: pd.DataFrame, resampling: Resampling) -> str:
    """Time and memory of all replicates, for Dice and mIoU together."""

    def test() -> object:
        return paired_tests([a], [b], resampling=resampling, measures=PAPER)

    tracemalloc.start()
    test()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    often = f"{resampling.bootstrap:,} + {resampling.randomization:,}"
    return f"{often}: {seconds(test):.2f} s, {peak:.0f} MB"


def _results(patients: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two methods on some images of each patient."""
    rng = np.random.default_rng(1)
    more = round(patients * _IMAGES) - patients
    owner = np.concatenate([np.arange(patients), rng.integers(patients, size=more)])
    truth = rng.integers(100, 6000, len(owner))
    frames = []
    for quality in (0.80, 0.78):
        tp = rng.binomial(truth, rng.beta(10 * quality, 10 * (1 - quality), len(owner)))
        counts = {"tp": tp, "fp": rng.integers(0, 2000, len(owner)), "fn": truth - tp}
        names = {"id": [f"i{i}" for i in range(len(owner))], "patient": [f"p{p}" for p in owner]}
        frames.append(pd.DataFrame(names | counts))
    return frames[0], frames[1]


def _slow_ci(frame: pd.DataFrame, replicates: int) -> tuple[float, float]:
    rows, counts = _rows_by_patient(frame), _counts(frame)
    rng = stream(_SEED)
    dice = []
    for _ in range(replicates):
        drawn = _draw(rng, rows)
        dice.append(float(global_dice(counts[drawn].sum(0))))
    low, high = np.percentile(dice, (2.5, 97.5))
    return float(low), float(high)


def _slow_tests(a: pd.DataFrame, b: pd.DataFrame, resampling: Resampling) -> dict[str, PairedTest]:
    rows, first, second = _rows_by_patient(a), _counts(a), _counts(b)
    rng = stream(_SEED)
    place = np.empty(len(a), dtype=np.int64)  # the patient of each image
    for patient, images in enumerate(rows):
        place[images] = patient
    drawn = [_sums(first, second, _draw(rng, rows)) for _ in range(resampling.bootstrap)]
    everything = np.arange(len(a))
    swapped = []
    for swap in draw_swaps(stream(_SEED, SWAPS), resampling.randomization, len(rows)):
        chosen = swap[place][:, None] > 0
        one, other = np.where(chosen, second, first), np.where(chosen, first, second)
        swapped.append(_sums(one, other, everything))
    observed = _sums(first, second, everything)
    return {name: _test(score, observed, drawn, swapped) for name, score in _SCORES.items()}


def _test(
    score: Callable[[np.ndarray], np.ndarray],
    observed: tuple[np.ndarray, np.ndarray],
    drawn: list[tuple[np.ndarray, np.ndarray]],
    swapped: list[tuple[np.ndarray, np.ndarray]],
) -> PairedTest:
    def difference(sums: tuple[np.ndarray, np.ndarray]) -> float:
        return float(score(sums[0]) - score(sums[1]))

    low, high = np.percentile([difference(sums) for sums in drawn], (2.5, 97.5))
    least = abs(difference(observed)) - 1e-12
    extreme = sum(abs(difference(sums)) >= least for sums in swapped)
    p = (1 + extreme) / (len(swapped) + 1)
    return PairedTest(difference(observed), float(low), float(high), p)


def _rows_by_patient(frame: pd.DataFrame) -> list[np.ndarray]:
    return [np.asarray(rows) for _, rows in sorted(frame.groupby("patient").indices.items())]


def _counts(frame: pd.DataFrame) -> np.ndarray:
    return frame[["tp", "fp", "fn"]].to_numpy(dtype=np.float64)


def _draw(rng: np.random.Generator, rows: list[np.ndarray]) -> np.ndarray:
    """The images of as many drawn patients as there are."""
    return np.concatenate([rows[p] for p in rng.integers(len(rows), size=len(rows))])


def _sums(
    first: np.ndarray, second: np.ndarray, images: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return first[images].sum(0), second[images].sum(0)
