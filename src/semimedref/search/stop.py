"""When a trial is bad enough to stop: under the median of earlier trials at the same epoch.

The limits of a batch follow from the finished trials of lower batches and are kept with the study;
whether and where a run stops then follows from its own curve alone. So a run that was finished
elsewhere is told exactly as if it had been trained in this study.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Limits = dict[int, float]  # epoch -> the least that the best so far must have reached


@dataclass(frozen=True)
class StopRule:
    """The numbers of ``search.stop``."""

    warmup: int  # epochs before which no trial stops
    trials: int  # finished trials that a median needs


def best_so_far(curve: Sequence[float]) -> list[float]:
    """The best value up to each epoch."""
    return list(itertools.accumulate(curve, max))


def limits(rule: StopRule | None, curves: Sequence[Sequence[float]]) -> Limits:
    """The median of the best so far at each epoch after the warm-up; none for too few trials.

    A trial that ended before others keeps its best.
    """
    if rule is None or len(curves) < rule.trials:
        return {}
    reached = [best_so_far(curve) for curve in curves]
    longest = max(map(len, reached))
    return {
        epoch: statistics.median(one[min(epoch, len(one)) - 1] for one in reached)
        for epoch in range(rule.warmup + 1, longest + 1)
    }


def stops_at(curve: Sequence[float], bounds: Mapping[int, float]) -> int | None:
    """The first epoch at whose end the best so far is under its limit; None if there is none."""
    for epoch, best in enumerate(best_so_far(curve), start=1):
        if epoch in bounds and best < bounds[epoch]:
            return epoch
    return None
