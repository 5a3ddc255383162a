"""The scores of one line of a table: over its seeds, with an interval beside Dice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results import reading, store, wording
from semimedref.results.resampling import Resampling
from semimedref.results.significance import bootstrap_ci

if TYPE_CHECKING:
    from semimedref.results.index import Index
    from semimedref.results.runs import Run
    from semimedref.sweep import Experiment


_ALWAYS = ("dice", "miou")  # scores that every finished segmentation has


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
    runs = list(runs)
    _check_known(experiment, runs)
    plain = (run for run in runs if not run.cell.evaluation)
    known = any(plain_score(run.result, "text_gap") is not None for run in plain)
    return tuple([*metrics, "text_gap"] if known and "text_gap" not in metrics else metrics)


def _check_known(experiment: Experiment, runs: list[Run]) -> None:
    """A misspelt metric must not overwrite a table with dashes."""
    carried = {key for run in runs if run.result for key in run.result["test"]}
    for metric in experiment.metrics:
        if carried and metric not in {*carried, *wording.METRICS, *experiment.analyses}:
            raise UserError(
                f"table.metrics names {metric!r}, which no result has: expected of "
                f"{', '.join(sorted(k for k in carried if '/' not in k))}"
            )


def scores(
    experiment: Experiment, runs: list[Run], metrics: Iterable[str], *, index: Index
) -> tuple[dict[str, Score], tuple[str, ...]]:
    """Each metric over the finished seeds of a line, and what their files lack."""
    done = [run for run in runs if run.result is not None]
    often = Resampling(**experiment.statistics)
    found: dict[str, Score] = {}
    problems: list[str] = []
    for metric in metrics:
        read = [_read(run, metric, experiment) for run in done]
        values = tuple(value for value in read if value is not None)
        if metric in _ALWAYS and len(values) < len(done) and _plain(done, metric, experiment):
            lacking = [run for run, value in zip(done, read, strict=True) if value is None]
            problems.append(f"{lacking[0].folder / 'result.json'} has no number for {metric}")
        interval = None
        if metric == "dice":
            try:
                interval = _dice_ci(done, index, often)
            except UserError as error:
                problems.append(str(error))
        found[metric] = Score(values, interval)
    return found, tuple(problems)


def _plain(done: list[Run], metric: str, experiment: Experiment) -> bool:
    """Whether a metric stands in every result: not of an analysis, not of another evaluation."""
    evaluated = any(reading.axis_of(run.cell) is not None for run in done)
    return metric not in experiment.analyses and not evaluated


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
        return bootstrap_ci(reading.per_image(done), replicates=often.bootstrap, seed=often.seed)

    files = [run.folder / "per_image.csv" for run in done]
    asked = [reading.domain_of(done[0].cell), often.bootstrap, often.seed]
    low, high = index.remember("interval of dice", files, interval, parameters=asked)
    return low, high


def plain_score(result: store.Result | None, metric: str) -> float | None:
    """A finite value of the test scores, or None."""
    value = result["test"].get(metric) if result else None
    return None if value is None or not math.isfinite(value) else float(value)
