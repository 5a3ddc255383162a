"""Confidence intervals and p values of set scores, with the patient as the unit.

Images of one patient are not independent, so whole patients are drawn and swapped, never images.
A method is a list of per-image tables, one for each training seed; its score is the mean over
seeds. docs/statistics.md has the formulas and what they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from semimedref.results.measures import DICE, PAPER, Floats, Measure, global_dice
from semimedref.results.pairing import check_pairs, patient_sums
from semimedref.results.resampling import (
    SEEDS,
    SWAPS,
    Resampling,
    draw_patients,
    draw_seeds,
    draw_swaps,
    drawn_totals,
    stream,
    swapped_totals,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["draw_patients", "draw_swaps", "global_dice"]  # the analyses take them from here

Interval = tuple[float, float]
Replicates = dict[str, Floats]  # by measure: one value for each replicate

_LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval
_TIE = 1e-12  # differences closer than this are equal: sums of fractions are rounded


@dataclass(frozen=True)
class PairedTest:
    """A score of a minus that of b, its 95 % interval over patients and the two-sided p value.

    With several training seeds ``hierarchical`` is the interval over seeds and patients.
    """

    difference: float
    ci_low: float
    ci_high: float
    p: float
    hierarchical: Interval | None = None


class Layout:
    """Where the sums of each measure stand among the columns of a matrix."""

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.measures = tuple(measures)
        self.parts = list({id(m.parts): m.parts for m in measures}.values())

    def sums(self, frames: Sequence[pd.DataFrame]) -> list[Floats]:
        """For each distinct part, sums of every patient and training seed (P, S, K)."""
        return [
            np.stack([patient_sums(frame, part(frame)) for frame in frames], axis=1)
            for part in self.parts
        ]

    def scores(self, sums: Sequence[Floats]) -> Replicates:
        """Every measure (...) from the sums (..., K) of each distinct part."""
        place = {id(part): at for at, part in enumerate(self.parts)}
        return {m.name: m.score(sums[place[id(m.parts)]]) for m in self.measures}


def scores(frames: Sequence[pd.DataFrame], measures: Sequence[Measure]) -> dict[str, float]:
    """Scores of a method on the whole set, means over its training seeds."""
    layout = Layout(measures)
    found = layout.scores([sums.sum(0) for sums in layout.sums(frames)])
    return {name: float(values.mean()) for name, values in found.items()}


def bootstrap(
    sides: Sequence[Sequence[pd.DataFrame]],
    *,
    resampling: Resampling,
    measures: Sequence[Measure] = PAPER,
    over_seeds: bool = False,
) -> list[Replicates]:
    """Replicates of the scores of several methods, with the same drawn patients for all.

    The patient-cluster bootstrap: patients are drawn with replacement, with all their images.
    ``over_seeds`` makes it hierarchical: the training seeds of each method are drawn, too, for
    each method by itself. With few seeds their spread is drawn from few values, so such an
    interval is rather too narrow than too wide.
    """
    layout = Layout(measures)
    blocks = [sums for frames in sides for sums in layout.sums(frames)]  # (P, S, K) each
    wide = np.concatenate([block.reshape(len(block), -1) for block in blocks], axis=1)
    ends = np.cumsum([block[0].size for block in blocks])[:-1]
    rng = stream(resampling.seed)
    of_side = [stream(resampling.seed, SEEDS, at) for at in range(len(sides))]
    found: list[dict[str, list[Floats]]] = [{m.name: [] for m in measures} for _ in sides]
    for totals in drawn_totals(wide, replicates=resampling.bootstrap, rng=rng):
        pieces = iter(np.split(totals, ends, axis=1))
        for at, frames in enumerate(sides):
            sums = [next(pieces).reshape(len(totals), len(frames), -1) for _ in layout.parts]
            chosen = draw_seeds(of_side[at], len(totals), len(frames)) if over_seeds else None
            for name, values in layout.scores(sums).items():
                found[at][name].append(_mean_over_seeds(values, chosen))
    return [{name: np.concatenate(v) for name, v in side.items()} for side in found]


def randomization(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    *,
    resampling: Resampling,
    measures: Sequence[Measure] = PAPER,
) -> dict[str, float]:
    """Two-sided p values of the paired patient-cluster randomization.

    In each replicate every patient's results are swapped between the two methods with probability
    1/2, in all training seeds together. p = (1 + k) / (B + 1), with k the replicates whose
    absolute difference is at least the observed one, so p is never 0.
    """
    layout = Layout(measures)
    sums = layout.sums(a), layout.sums(b)
    wide = [np.concatenate([s.reshape(len(s), -1) for s in side], axis=1) for side in sums]
    shapes = [s.shape[1:] for s in sums[0]]
    ends = np.cumsum([s[0].size for s in sums[0]])[:-1]

    def mean_scores(totals: Floats) -> Replicates:
        pieces = np.split(totals, ends, axis=-1)
        found = layout.scores([p.reshape(-1, *s) for p, s in zip(pieces, shapes, strict=True)])
        return {name: values.mean(axis=1) for name, values in found.items()}

    observed = _minus(*(mean_scores(side.sum(0)) for side in wide))
    extreme = dict.fromkeys(observed, 0)
    draws = resampling.randomization
    rng = stream(resampling.seed, SWAPS)
    for first, second in swapped_totals(wide[0], wide[1], replicates=draws, rng=rng):
        for name, swapped in _minus(mean_scores(first), mean_scores(second)).items():
            least = abs(observed[name][0]) - _TIE
            extreme[name] += int(np.count_nonzero(np.abs(swapped) >= least))
    return {name: (1 + k) / (draws + 1) for name, k in extreme.items()}


def paired_tests(
    a: Sequence[pd.DataFrame],
    b: Sequence[pd.DataFrame],
    *,
    resampling: Resampling,
    measures: Sequence[Measure] = PAPER,
) -> dict[str, PairedTest]:
    """Compare two methods on the same images: every score of a minus that of b."""
    check_pairs({"a": a, "b": b})
    means = scores(a, measures), scores(b, measures)
    drawn = _minus(*bootstrap([a, b], resampling=resampling, measures=measures))
    p = randomization(a, b, resampling=resampling, measures=measures)
    wide: Mapping[str, Floats] = {}
    if len(a) > 1:
        seeds_too = bootstrap([a, b], resampling=resampling, measures=measures, over_seeds=True)
        wide = _minus(*seeds_too)
    return {
        m.name: PairedTest(
            means[0][m.name] - means[1][m.name],
            *interval(drawn[m.name]),
            p=p[m.name],
            hierarchical=interval(wide[m.name]) if wide else None,
        )
        for m in measures
    }


def bootstrap_ci(frames: Sequence[pd.DataFrame], *, replicates: int, seed: int) -> Interval:
    """95 % percentile interval of the mean over training seeds of global Dice.

    One frame: patients are drawn. Several: hierarchical, seeds and patients are drawn.
    """
    check_pairs({str(at): [frame] for at, frame in enumerate(frames)})
    resampling = Resampling(bootstrap=replicates, randomization=1, seed=seed, locked="")
    several = len(frames) > 1
    (drawn,) = bootstrap([frames], resampling=resampling, measures=[DICE], over_seeds=several)
    return interval(drawn[DICE.name])


def interval(values: Floats) -> Interval:
    """95 % percentile interval; replicates without a value are left out."""
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, _LEVEL)
    return float(low), float(high)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of the p values of one family of tests."""
    adjusted = [0.0] * len(p)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        running = max(running, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = running
    return adjusted


def _mean_over_seeds(values: Floats, chosen: np.ndarray | None) -> Floats:
    if chosen is not None:
        values = np.take_along_axis(values, chosen, axis=1)
    return np.asarray(values.mean(axis=1))


def _minus(a: Mapping[str, Floats], b: Mapping[str, Floats]) -> Replicates:
    return {name: a[name] - b[name] for name in a}
