"""Confidence intervals and p values for global Dice, with the patient as the unit.

Images of one patient are not independent, so whole patients are drawn and swapped, never images.
Global Dice is 2 TP / (2 TP + FP + FN) with the counts summed over the set; a replicate therefore
needs only each patient's sums: one matrix product for many replicates, in chunks, exact in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from semimedref.errors import UserError
from semimedref.results.store import COUNTS

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_CHUNK = 1000  # replicates at once: about 4 MB for 474 patients
_LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval
_TIE = 1e-12  # differences of Dice closer than this are equal


@dataclass(frozen=True)
class PairedTest:
    """Global Dice of a minus that of b, its 95 % interval and the two-sided p value."""

    difference: float
    ci_low: float
    ci_high: float
    p: float


def global_dice(sums: Floats) -> Floats:
    """Dice of summed counts (..., 3), TP, FP, FN; nothing to find and nothing found is 1."""
    overlap = 2.0 * sums[..., 0]
    both = overlap + sums[..., 1] + sums[..., 2]
    return np.divide(overlap, both, out=np.ones_like(both), where=both > 0)


def bootstrap_ci(
    frames: Sequence[pd.DataFrame], *, replicates: int, seed: int
) -> tuple[float, float]:
    """95 % percentile interval of the mean over seeds of global Dice.

    One frame (the per-image rows of one seed): patients are drawn with replacement. Several:
    hierarchical, each replicate draws seeds and, once for all of them, patients, since every
    seed is tested on the same patients. With few seeds the spread between them is drawn from
    few values, so such an interval is rather too narrow than too wide.
    """
    sums = np.stack([patient_sums(frame, like=frames[0]) for frame in frames], axis=1)  # (P, S, 3)
    patients, seeds, _ = sums.shape
    rng = np.random.default_rng(seed)
    means = []
    for size in _chunks(replicates):
        totals = draw_patients(rng, size, patients) @ sums.reshape(patients, -1)
        dice = global_dice(totals.reshape(size, seeds, 3))
        chosen = rng.integers(seeds, size=(size, seeds))
        means.append(np.take_along_axis(dice, chosen, axis=1).mean(axis=1))
    low, high = np.percentile(np.concatenate(means), _LEVEL)
    return float(low), float(high)


def paired_test(a: pd.DataFrame, b: pd.DataFrame, *, replicates: int, seed: int) -> PairedTest:
    """Compare two methods on the same images: Dice of a minus Dice of b.

    p: paired randomization, in each replicate every patient's counts are swapped between the
    two methods with probability 1/2, p = (1 + k) / (replicates + 1) with k the replicates whose
    absolute difference is at least the observed one. Interval: percentile bootstrap over
    patients, drawn for both methods alike. Rows of several seeds may be concatenated: a
    patient's counts are summed over its images and seeds first, so that a patient stays one
    cluster.
    """
    _check_pairs(a, b)
    first, second = patient_sums(a, like=a), patient_sums(b, like=a)  # (P, 3)
    observed = float(global_dice(first.sum(0)) - global_dice(second.sum(0)))
    rng = np.random.default_rng(seed)
    low, high = _paired_bootstrap(first, second, replicates, rng)
    extreme = _count_extreme(first, second, abs(observed), replicates, rng)
    return PairedTest(observed, low, high, (1 + extreme) / (replicates + 1))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of the p values of one family of tests."""
    adjusted = [0.0] * len(p)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = running
    return adjusted


def patient_sums(frame: pd.DataFrame, *, like: pd.DataFrame) -> Floats:
    """TP, FP, FN of each patient (P, 3), in the order of the patients of another frame."""
    sums = frame.groupby("patient", sort=True)[list(COUNTS)].sum()
    expected = sorted(set(like["patient"]))
    if list(sums.index) != expected:
        raise UserError(
            f"found results on {len(sums)} and on {len(expected)} patients that are not the same; "
            "expected one test set (`semimedref diff RUN_A RUN_B` shows the configurations)"
        )
    return np.asarray(sums.to_numpy(), dtype=np.float64)


def draw_patients(rng: np.random.Generator, replicates: int, patients: int) -> Floats:
    """How often each patient is drawn in each replicate (R, P): rows of sum P."""
    drawn = rng.integers(patients, size=(replicates, patients))
    drawn += np.arange(replicates)[:, None] * patients
    counts = np.bincount(drawn.ravel(), minlength=replicates * patients)
    return counts.reshape(replicates, patients).astype(np.float64)


def draw_swaps(rng: np.random.Generator, replicates: int, patients: int) -> Floats:
    """Which patients are swapped in each replicate (R, P): fair zeros and ones."""
    row = (patients + 7) // 8
    packed = np.frombuffer(rng.bytes(replicates * row), dtype=np.uint8).reshape(replicates, row)
    return np.unpackbits(packed, axis=1, count=patients).astype(np.float64)


def _paired_bootstrap(
    first: Floats, second: Floats, replicates: int, rng: np.random.Generator
) -> tuple[float, float]:
    both = np.concatenate([first, second], axis=1)  # (P, 6)
    differences = []
    for size in _chunks(replicates):
        totals = draw_patients(rng, size, len(both)) @ both
        differences.append(global_dice(totals[:, :3]) - global_dice(totals[:, 3:]))
    low, high = np.percentile(np.concatenate(differences), _LEVEL)
    return float(low), float(high)


def _count_extreme(
    first: Floats, second: Floats, observed: float, replicates: int, rng: np.random.Generator
) -> int:
    gain = second - first  # (P, 3): what swapping a patient adds to the first method
    total_first, total_second = first.sum(0), second.sum(0)
    extreme = 0
    for size in _chunks(replicates):
        moved = draw_swaps(rng, size, len(gain)) @ gain
        swapped = global_dice(total_first + moved) - global_dice(total_second - moved)
        extreme += int(np.count_nonzero(np.abs(swapped) >= observed - _TIE))
    return extreme


def _chunks(replicates: int) -> Iterator[int]:
    for start in range(0, replicates, _CHUNK):
        yield min(_CHUNK, replicates - start)


def _check_pairs(a: pd.DataFrame, b: pd.DataFrame) -> None:
    """Refuse two results that are not of the same images with the same truth, equally often."""
    left, right = _identity(a), _identity(b)
    if left == right:
        return
    only = sorted({key[0] for key in left} ^ {key[0] for key in right})
    what = f"image {only[0]!r} is in one only" if only else "patients, truths or seeds differ"
    raise UserError(
        f"found two results that cannot be paired ({len(a)} and {len(b)} rows, {what}); expected "
        "the same test images in both (`semimedref diff RUN_A RUN_B` shows the configurations)"
    )


def _identity(frame: pd.DataFrame) -> list[tuple[str, str, int]]:
    truth = frame["tp"] + frame["fn"]  # the number of true pixels does not depend on the method
    return sorted(zip(frame["id"], frame["patient"], truth.tolist(), strict=True))
