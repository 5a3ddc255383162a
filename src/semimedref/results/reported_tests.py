"""The tests that the paper reports, for those of an experiment that it has, too."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semimedref.results.reported import FOLDER

if TYPE_CHECKING:
    from semimedref.sweep import Experiment


@dataclass(frozen=True)
class ReportedTest:
    """A difference that the paper reports, in percentage points, with its interval and p value."""

    row: str
    reference: str
    column: tuple[str, ...]
    metric: str
    points: float
    ci: tuple[float, float]
    p_holm: float


def reported_tests(experiment: Experiment) -> list[ReportedTest]:
    """The paper's tests of the pairs that an experiment names; none at another scale."""
    if experiment.scale != "paper":
        return []
    with (FOLDER / "significance.csv").open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    return [
        ReportedTest(
            row=record["row"],
            reference=record["reference"],
            column=tuple(place.get(name, "") for name in experiment.columns),
            metric=record["metric"],
            points=float(record["delta"]),
            ci=(float(record["ci_low"]), float(record["ci_high"])),
            p_holm=float(record["p_holm"]),
        )
        for place in experiment.places
        for record in records
        if (record["row"], record["reference"]) in experiment.comparisons
        and all(place.get(key) == record[key] for key in ("dataset", "ratio"))
    ]
