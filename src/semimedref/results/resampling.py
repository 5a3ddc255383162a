"""Draw patients with replacement, or swap them between two methods, many replicates at a time.

Every score here is a function of sums over images. A replicate therefore needs each patient's sums
and how often that patient was drawn (or whether it was swapped): one matrix product for many
replicates. Sums of pixel counts are whole numbers, which float64 adds without rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semimedref.errors import UserError

Floats = NDArray[np.float64]

# Draws at once: 256 KB. Larger arrays are given back to the system and faulted in again each time,
# which takes longer than the arithmetic; multiples of 4 replicates use up whole random words.
_DRAWS = 2**15
_BLOCK = 4096  # replicates whose sums are kept and scored at once
SEEDS, SWAPS = 1, 2  # purposes of random numbers beside the drawing of patients


@dataclass(frozen=True)
class Resampling:
    """How often patients are drawn and swapped, and from which seed.

    Args:
        bootstrap: replicates of the patient-cluster bootstrap, for intervals.
        randomization: replicates of the patient-cluster randomization, for p values.
        seed: of the draws; the same seed gives the same numbers.
        locked: the training seed whose checkpoints stand for a method in ``significance``.
    """

    bootstrap: int
    randomization: int
    seed: int
    locked: str

    def __post_init__(self) -> None:
        """Refuse numbers that give no interval or no p value."""
        for name, least in (("bootstrap", 1), ("randomization", 1), ("seed", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise UserError(
                    f"statistics.{name}={value}: expected a whole number from {least} on, "
                    f"e.g. statistics.{name}=2000"
                )


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


def draw_seeds(rng: np.random.Generator, replicates: int, seeds: int) -> NDArray[np.int64]:
    """Which seeds are drawn in each replicate (R, S), with replacement."""
    return rng.integers(seeds, size=(replicates, seeds))


def stream(seed: int, *purpose: int) -> np.random.Generator:
    """Random numbers of one purpose; patients come from the plain seed.

    Every purpose has its own, so that an interval is the same whether or not a p value is asked
    for, and however many replicates are drawn at once.
    """
    return np.random.default_rng((seed, *purpose) if purpose else seed)


def drawn_totals(sums: Floats, *, replicates: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Column sums (R, K) of drawn patients, from their own sums (P, K), block by block."""
    for size in _blocks(replicates):
        yield _products(draw_patients, sums, replicates=size, rng=rng)


def swapped_totals(
    first: Floats, second: Floats, *, replicates: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats]]:
    """Column sums (R, K) of two methods whose patients (P, K) are swapped, block by block."""
    gain = second - first  # what swapping a patient adds to the first method
    total_first, total_second = first.sum(0), second.sum(0)
    for size in _blocks(replicates):
        moved = _products(draw_swaps, gain, replicates=size, rng=rng)
        yield total_first + moved, total_second - moved


def _products(
    draw: Callable[[np.random.Generator, int, int], Floats],
    sums: Floats,
    *,
    replicates: int,
    rng: np.random.Generator,
) -> Floats:
    """Drawn weights (R, P) times sums (P, K), some replicates at a time."""
    patients, columns = sums.shape
    step = max(4, _DRAWS // patients // 4 * 4)
    totals = np.empty((replicates, columns))
    for start in range(0, replicates, step):
        part = totals[start : start + step]
        np.matmul(draw(rng, len(part), patients), sums, out=part)
    return totals


def _blocks(replicates: int) -> Iterator[int]:
    for start in range(0, replicates, _BLOCK):
        yield min(_BLOCK, replicates - start)
