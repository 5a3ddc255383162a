"""What came of a trial, read from its run folder: validation scores and costs, never test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semimedref.errors import UserError
from semimedref.results import store
from semimedref.search.record import State
from semimedref.search.settings import Search
from semimedref.search.stop import Limits, stops_at


class ObjectiveError(UserError):
    """An objective that no run has: every further trial would be in vain."""


@dataclass(frozen=True)
class Outcome:
    """How a trial is told."""

    state: State
    values: list[float] | None = None
    curve: tuple[float, ...] = ()
    reason: str = ""


def outcome(search: Search, folder: Path, bounds: Limits) -> Outcome | None:
    """What the run folder decides about the trial; None while it decides nothing.

    A run that fell under a limit is stopped, however far it was trained in the end: the same curve
    is always told the same way.
    """
    key = search.objectives[0].key
    curve = tuple(curve_of(folder, key)) if key.startswith("val/") else ()
    epoch = stops_at(curve, bounds)
    if epoch is not None:
        seen = curve[:epoch]
        why = f"after epoch {epoch}: {max(seen):.4f} under the median {bounds[epoch]:.4f}"
        return Outcome("stopped", [max(seen)], seen, why)
    if store.state(folder) != "done":
        return None
    result = store.load_result(folder)
    if result.get("selected_on", "valid") != "valid":
        raise ObjectiveError(
            f"{folder} chose its epoch on the {result['selected_on']} set, so its validation "
            "scores are test scores: search with method.as_released=false"
        )
    values = [_value(one.key, result, folder) for one in search.objectives]
    return Outcome("done", values, curve)


def curve_of(folder: Path, key: str) -> list[float]:
    """A validation score by epoch, as far as the run has come."""
    rows = store.load_metrics(folder)
    missing = [row for row in rows if key not in row]
    if missing:
        known = ", ".join(sorted(k for k in missing[0] if k.startswith("val/")))
        raise ObjectiveError(f"search.objectives names {key}: the runs have {known}")
    return [float(row[key]) for row in rows]


def _value(key: str, result: store.Result, folder: Path) -> float:
    if key == "cost/steps":
        return float(result["steps"])
    if key == "cost/parameters":
        return float(result["parameters"]["trainable"])
    if key == "cost/gflops":
        from semimedref.search.cost import forward_gflops

        return forward_gflops(result["config"])
    best: Mapping[str, Any] = result["best"]
    if key in best:
        return float(best[key])
    return curve_of(folder, key)[int(best["epoch"]) - 1]  # another score, at the selected epoch
