"""The scores of one line of a table: over its seeds, with an interval beside Dice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.results import reading, store
from semimedref.results.resampling import Resampling
from semimedref.results.significance import bootstrap_ci

if TYPE_CHECKING:
    from semimedref.results.index import Index
    from semimedref.results.table import Run
    from semimedref.sweep import Experiment


@dataclass(frozen=True)
class Score:
    """One metric of one table line, as fractions: mean and sample deviation over the seeds done."""

    values: tuple[float, ...]
    ci: tuple[float, float] | None = None

    @property
    def n(self) -> int:
        """How many seeds have a value."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Mean over seeds, or None when there is none yet."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Sample standard deviation (n - 1), or None below two seeds."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def metrics(experiment: Experiment, runs: Iterable[Run]) -> tuple[str, ...]:
    """The experiment's metrics; the text gap is always shown where the results carry it."""
    metrics = list(experiment.metrics)
    plain = (run for run in runs if not run.cell.evaluation)
    known = any(plain_score(run.result, "text_gap") is not None for run in plain)
    return tuple([*metrics, "text_gap"] if known and "text_gap" not in metrics else metrics)


def scores(
    experiment: Experiment, runs: list[Run], metrics: Iterable[str], *, index: Index
) -> dict[str, Score]:
    """Each metric over the finished seeds of a line."""
    done = [run for run in runs if run.result is not None]
    often = Resampling(**experiment.statistics)
    scores = {}
    for metric in metrics:
        found = [_read(run, metric, experiment) for run in done]
        values = tuple(value for value in found if value is not None)
        interval = _dice_ci(done, index, often) if metric == "dice" else None
        scores[metric] = Score(values, interval)
    return scores


def _read(run: Run, metric: str, experiment: Experiment) -> float | None:
    if run.result is None:
        return None
    analysis = experiment.analyses.get(metric)
    return reading.score(run.cell, run.folder, run.result, metric=metric, analysis=analysis)


def remedies(experiment: Experiment, runs: Iterable[Run], metrics: Iterable[str]) -> list[str]:
    """Commands for what finished runs were not asked yet: evaluations and analyses."""
    found: dict[str, None] = {}
    for run in runs:
        for metric in metrics if run.result is not None else ():
            analysis = experiment.analyses.get(metric)
            asked = analysis is not None or reading.axis_of(run.cell) is not None
            if asked and _read(run, metric, experiment) is None:
                root = Path(experiment.run_root)
                found[reading.remedy(run.cell, analysis=analysis, run_root=root)] = None
    return list(found)


def _dice_ci(done: list[Run], index: Index, often: Resampling) -> tuple[float, float] | None:
    """The interval of the plain test, or of one domain of it; other evaluations keep no counts."""
    if not done or any(reading.axis_of(run.cell) is not None for run in done):
        return None

    def interval() -> tuple[float, float]:
        frames = [reading.per_image(run.cell, run.folder) for run in done]
        return bootstrap_ci(frames, replicates=often.bootstrap, seed=often.seed)

    files = [run.folder / "per_image.csv" for run in done]
    asked = [reading.domain_of(done[0].cell), often.bootstrap, often.seed]
    low, high = index.remember("interval of dice", files, interval, parameters=asked)
    return low, high


def plain_score(result: store.Result | None, metric: str) -> float | None:
    """A finite value of the test scores, or None."""
    value = result["test"].get(metric) if result else None
    return None if value is None or not math.isfinite(value) else float(value)
