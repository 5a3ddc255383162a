"""Compare methods from their per-image results: ours, or those of any other program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from semimedref.errors import UserError
from semimedref.results import per_image
from semimedref.results.measures import KNOWN, Measure, mean_of
from semimedref.results.pairing import check_pairs
from semimedref.results.renumbering import alike
from semimedref.results.resampling import Resampling
from semimedref.results.significance import (
    Interval,
    PairedTest,
    bootstrap,
    holm,
    interval,
    paired_tests,
    scores,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Side:
    """A method: its per-image tables, one for each training seed."""

    name: str
    sources: tuple[str, ...]
    frames: tuple[pd.DataFrame, ...]


@dataclass(frozen=True)
class Estimate:
    """One score of a method with its 95 % interval; over seeds, too, where there are several."""

    method: str
    measure: Measure
    value: float
    ci: Interval


@dataclass(frozen=True)
class Difference:
    """A score of one method minus that of another, with Holm's correction over all of them."""

    a: str
    b: str
    measure: Measure
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class Compared:
    """Everything that a comparison found."""

    sides: tuple[Side, ...]
    images: int
    patients: int
    estimates: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    resampling: Resampling
    notes: tuple[str, ...]


def read_side(label: str, names: Sequence[str], *, run_root: str) -> Side:
    """Load the tables of a method: paths of CSV tables, or runs."""
    return Side(
        label, tuple(names), tuple(per_image.load(name, run_root=run_root) for name in names)
    )


def compare(
    sides: Sequence[Side],
    *,
    resampling: Resampling,
    metrics: Sequence[str] = (),
) -> Compared:
    """Score every method and test the first against each other one.

    Args:
        sides: two methods or more.
        resampling: how often patients are drawn and swapped.
        metrics: names of scores; empty for all that every table has.
    """
    measures = _measures(sides, metrics)
    sides, patients = _with_patients(sides)
    check_pairs({side.name: side.frames for side in sides})
    sides, undefined = _prepared(sides, measures)
    reference = sides[0].frames[0]
    family = [
        (other.name, measure, test)
        for other in sides[1:]
        for measure, test in _tests(sides[0], other, measures, resampling)
    ]
    adjusted = holm([test.p for _, _, test in family])
    return Compared(
        sides=tuple(sides),
        images=len(reference),
        patients=int(reference["patient"].nunique()),
        estimates=tuple(_estimates(sides, measures, resampling)),
        differences=tuple(
            Difference(sides[0].name, other, measure, test, p)
            for (other, measure, test), p in zip(family, adjusted, strict=True)
        ),
        resampling=resampling,
        notes=(*patients, *undefined),
    )


def _tests(
    a: Side, b: Side, measures: Sequence[Measure], resampling: Resampling
) -> list[tuple[Measure, PairedTest]]:
    tests = paired_tests(a.frames, b.frames, resampling=resampling, measures=measures)
    return [(measure, tests[measure.name]) for measure in measures]


def _estimates(
    sides: Sequence[Side], measures: Sequence[Measure], resampling: Resampling
) -> list[Estimate]:
    several = len(sides[0].frames) > 1
    frames = [side.frames for side in sides]
    drawn = bootstrap(frames, resampling=resampling, measures=measures, over_seeds=several)
    found = []
    for side, replicates in zip(sides, drawn, strict=True):
        values = scores(side.frames, measures)
        found += [
            Estimate(side.name, m, values[m.name], interval(replicates[m.name])) for m in measures
        ]
    return found


def _measures(sides: Sequence[Side], asked: Sequence[str]) -> list[Measure]:
    """The scores that are asked for, or all known ones that every table has."""
    tables = [set(frame.columns) for side in sides for frame in side.frames]
    shared = set.intersection(*tables)
    known = {measure.name: measure for measure in KNOWN}
    if not asked:
        return [measure for measure in KNOWN if shared.issuperset(measure.needs)]
    found = []
    for name in dict.fromkeys(asked):
        measure = known[name] if name in known else mean_of(name)
        lacking = [column for column in measure.needs if column not in shared]
        if lacking:
            able = [m.name for m in KNOWN if shared.issuperset(m.needs)]
            raise UserError(
                f"metrics={name} needs the column {lacking[0]!r}, which not every table has; "
                f"expected of {', '.join(able)}, or a numeric column of all tables"
            )
        found.append(measure)
    return found


def _with_patients(sides: Sequence[Side]) -> tuple[list[Side], list[str]]:
    frames, note = per_image.with_patients([frame for side in sides for frame in side.frames])
    frames = alike(frames)  # an imported run beside a local one
    left = iter(frames)
    filled = [Side(s.name, s.sources, tuple(next(left) for _ in s.frames)) for s in sides]
    return filled, [] if note is None else [note]


def _prepared(sides: Sequence[Side], measures: Sequence[Measure]) -> tuple[list[Side], list[str]]:
    """Tables in one order, with numbers, and without values that another method does not have.

    HD95 has no value where a method finds nothing. Leaving the image out for that method alone
    would reward it, so it is left out for all, and the number of such images is said.
    """
    columns = list(dict.fromkeys(column for measure in measures for column in measure.needs))
    ready = [
        [
            per_image.with_numbers(frame, columns, source=source).sort_values("id")
            for frame, source in zip(side.frames, side.sources, strict=True)
        ]
        for side in sides
    ]
    notes = []
    for column in columns:
        values = np.stack([frame[column].to_numpy() for frames in ready for frame in frames])
        lost = ~np.isfinite(values).all(axis=0)
        if lost.any():
            notes.append(
                f"{column}: {int(lost.sum())} of {len(lost)} images have no value for some method "
                "and are left out for all"
            )
            ready = [[f.assign(**{column: f[column].mask(lost)}) for f in fs] for fs in ready]
    paired = zip(sides, ready, strict=True)
    return [Side(side.name, side.sources, tuple(frames)) for side, frames in paired], notes
