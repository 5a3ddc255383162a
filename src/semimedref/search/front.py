"""The best trials: one for one objective, the Pareto front for several."""

from __future__ import annotations

from collections.abc import Sequence

from semimedref.search.record import Trial
from semimedref.search.settings import Objective


def best_trials(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    """The finished trials that no other one beats, by number; of equal ones the first.

    With one objective that is the best trial; a stopped one is never among them.
    """
    done = [trial for trial in trials if trial.state == "done"]
    kept: list[Trial] = []
    for trial in done:
        if any(_dominates(other, trial, objectives) for other in done):
            continue
        if not any(other.values == trial.values for other in kept):
            kept.append(trial)
    return kept


def _dominates(a: Trial, b: Trial, objectives: Sequence[Objective]) -> bool:
    """Whether ``a`` is at least as good everywhere and better somewhere."""
    pairs = list(zip(objectives, a.values or (), b.values or (), strict=True))
    worse = any(one.better(y, x) for one, x, y in pairs)
    return not worse and any(one.better(x, y) for one, x, y in pairs)
