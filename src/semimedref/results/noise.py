"""Is a difference to the paper larger than what another training seed would give?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from semimedref.results.reported import Reported
    from semimedref.results.table import Score

Verdict = Literal["within", "outside", "unknown"]
_LEVEL = 0.975  # of a two-sided interval of 95 %
_FEWEST = 3  # seeds: with two, t is 12.7 and hardly anything is ever outside


@dataclass(frozen=True)
class Gap:
    """Ours minus the paper's, in points, and whether seeds alone explain it."""

    points: float
    verdict: Verdict


def gap(score: Score, reported: Reported, *, paper_seeds: int) -> Gap | None:
    """The difference of our mean to the paper's, or None where the two cannot be compared.

    Within seed noise: |difference| is at most t · sqrt(s² / n + s_p² / m), with our sample
    deviation s over n seeds, the paper's s_p over m (ours, where it reports none) and Student's t
    for n − 1 degrees of freedom. With fewer than three seeds next to nothing is known of the noise.
    """
    if score.mean is None or reported.family == "other":
        return None
    points = 100 * score.mean - reported.value
    if score.std is None or score.n < _FEWEST:
        return Gap(points, "unknown")
    ours = 100 * score.std
    theirs = ours if reported.std is None else reported.std
    error = math.sqrt(ours**2 / score.n + theirs**2 / (reported.seeds or paper_seeds))
    return Gap(points, "within" if abs(points) <= _t(score.n - 1) * error else "outside")


def _t(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, _LEVEL))
