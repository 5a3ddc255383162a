"""Which scores of a finished run stand in a cell: the plain test, an evaluation, an analysis."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.axis import Axis
from semimedref.errors import UserError
from semimedref.results import store
from semimedref.results.renumbering import alike

if TYPE_CHECKING:
    import pandas as pd

    from semimedref.results.runs import Run
    from semimedref.results.store import Result
    from semimedref.sweep import Cell

_DOMAIN = "domain"  # in an evaluation: one domain of the test set


def score(
    cell: Cell, folder: Path, result: Result, *, metric: str, analysis: str | None
) -> float | None:
    """A finite score of a finished cell, or None where its evaluation has not been made."""
    if analysis is not None:
        found = _load(folder / "analysis" / f"{analysis}.json")
        inner = found.get(cell.row)
        return _finite(inner if isinstance(inner, Mapping) else found, metric)
    axis = axis_of(cell)
    scores: Mapping[str, object] = result["test"]
    if axis is not None:
        scores = _load(folder / "eval" / f"{axis.name('test')}.json")
    domain = domain_of(cell)
    return _finite(scores, f"{_DOMAIN}/{domain}/{metric}" if domain else metric)


def per_image(runs: Sequence[Run]) -> list[pd.DataFrame]:
    """The counts of every image that cells show: of the plain test, or of one domain of it.

    All under one set of names, so that local runs can stand beside imported ones.
    """
    frames = alike([store.load_per_image(run.folder) for run in runs])
    return [_of_domain(frame, run) for frame, run in zip(frames, runs, strict=True)]


def _of_domain(frame: pd.DataFrame, run: Run) -> pd.DataFrame:
    domain = domain_of(run.cell)
    if not domain:
        return frame
    found = frame[frame["domain"] == domain] if "domain" in frame else frame[:0]
    if found.empty:
        raise UserError(
            f"{run.folder / 'per_image.csv'} has no image of the domain {domain}: expected a run "
            "of a data set with domains (`semimedref status` shows the cells)"
        )
    return found.reset_index(drop=True)


def remedy(cell: Cell, *, analysis: str | None, run_root: Path) -> str:
    """The command that makes a score of a finished run that is not there yet."""
    root = [] if str(run_root) == "multirun" else [f"run_root={run_root}"]
    if analysis is not None:
        return shlex.join(["semimedref", "analyze", analysis, f"run={cell.name}", *root])
    axis = axis_of(cell) or Axis()
    words = [f"route={axis.route}"] if axis.route else []
    words += [] if axis.removal is None else [f"removal={axis.removal:g}"]
    return shlex.join(["semimedref", "evaluate", f"run={cell.name}", "split=test", *words, *root])


def axis_of(cell: Cell) -> Axis | None:
    """How the run is asked in this cell; None: by the plain test."""
    how = {key: value for key, value in cell.evaluation.items() if key != _DOMAIN}
    return Axis(**how) if how else None


def domain_of(cell: Cell) -> str:
    """The domain of the test set that the cell shows; empty: all of it."""
    return str(cell.evaluation.get(_DOMAIN, ""))


def _load(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise UserError(
            f"{path} is not a JSON object: delete it and run the command that writes it again "
            "(`semimedref table` names it)"
        )
    return found


def _finite(scores: Mapping[str, object], metric: str) -> float | None:
    value = scores.get(metric)
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
