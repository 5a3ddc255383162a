"""The paper's significance analysis of an experiment: named pairs of rows, Dice and mIoU, Holm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results import reading
from semimedref.results.measures import PAPER, Measure
from semimedref.results.reported_tests import ReportedTest, reported_tests
from semimedref.results.resampling import Resampling
from semimedref.results.runs import Run, column_of, read_runs
from semimedref.results.significance import PairedTest, holm, paired_tests

if TYPE_CHECKING:
    from semimedref.sweep import Experiment

ALL = "all"  # seeds=all: means over all seeds that both rows have


@dataclass(frozen=True)
class Hypothesis:
    """One score of a row minus that of its reference, and its p value within the family."""

    row: str
    reference: str
    column: tuple[str, ...]
    measure: Measure
    seeds: tuple[str, ...]
    images: int
    patients: int
    test: PairedTest
    p_holm: float


@dataclass(frozen=True)
class Family:
    """The tests of an experiment; Holm's correction is over all planned tests of one column."""

    name: str
    title: str
    columns: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]
    untested: tuple[str, ...]  # what is missing, each with the command that trains it
    resampling: Resampling
    reported: tuple[ReportedTest, ...] = ()  # what the paper has for these pairs


def family_of(experiment: Experiment, *, resampling: Resampling, seeds: str) -> Family:
    """Test every pair that the experiment names; without names, every row against the first.

    Args:
        experiment: rows and columns.
        resampling: how often patients are drawn and swapped.
        seeds: the training seeds to compare: one, some with commas between them, or ``all``.
    """
    known = {cell.point.get(experiment.over, "") for cell in experiment.cells}
    strange = [seed for seed in seeds.split(",") if seed not in {ALL, *known}]
    if strange and known:
        raise UserError(
            f"seeds={strange[0]} is no {experiment.over} of {experiment.name}: expected "
            f"{', '.join(sorted(known))} or {ALL} (statistics.locked names the default)"
        )
    found: list[Hypothesis] = []
    untested: list[str] = []
    for column, rows in _by_column(experiment).items():
        family: list[Hypothesis] = []
        for row, reference in _pairs(experiment, list(rows)):
            pair = _pair(rows.get(row, []), rows.get(reference, []), seeds)
            if isinstance(pair, str):
                untested.append(f"{', '.join([row, *column])}, minus {reference}: {pair}")
            elif pair:
                family += _hypotheses((row, reference), column, pair, resampling)
        planned = len(PAPER) * len(_pairs(experiment, list(rows)))
        waiting = [1.0] * (planned - len(family))  # tests of the family that are still to be made
        adjusted = holm([*(hypothesis.test.p for hypothesis in family), *waiting])
        found += [replace(h, p_holm=p) for h, p in zip(family, adjusted, strict=False)]
    return Family(
        name=experiment.name,
        title=experiment.title,
        columns=tuple(experiment.columns),
        hypotheses=tuple(found),
        untested=tuple(untested),
        resampling=resampling,
        reported=tuple(reported_tests(experiment)),
    )


def _by_column(experiment: Experiment) -> dict[tuple[str, ...], dict[str, list[Run]]]:
    columns: dict[tuple[str, ...], dict[str, list[Run]]] = {}
    for run in read_runs(experiment):
        rows = columns.setdefault(column_of(run.cell, experiment), {})
        rows.setdefault(run.cell.row, []).append(run)
    return columns


def _pairs(experiment: Experiment, rows: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of rows of one column."""
    if not experiment.comparisons:
        return [(row, rows[0]) for row in rows[1:]]
    known = {*experiment.rows, *(cell.row for cell in experiment.cells)}
    for row in (row for pair in experiment.comparisons for row in pair):
        if row not in known:
            raise UserError(
                f"{experiment.name}: table.comparisons names {row!r}, which is no row; expected of "
                f"{', '.join(sorted(known))} (conf/experiment/{experiment.name}.yaml)"
            )
    return list(experiment.comparisons)


def _pair(ours: list[Run], theirs: list[Run], seeds: str) -> list[tuple[Run, Run]] | str:
    """Finished runs of two rows by seed, or what is missing; none if the rows are the same runs."""
    if not ours or not theirs:
        return "not built here, the paper's values only"
    if any(reading.axis_of(run.cell) is not None for run in (*ours, *theirs)):
        return "counts of every image are kept of the plain test alone"
    first, second = ({run.seed: run for run in runs} for runs in (ours, theirs))
    shared = [seed for seed in second if seed in first]
    wanted = shared if seeds == ALL else seeds.split(",")
    unknown = [seed for seed in wanted if seed not in shared]
    if unknown or not wanted:
        return f"no cell {', '.join(unknown)} in both (there are {', '.join(shared) or 'none'})"
    pairs = [(first[seed], second[seed]) for seed in wanted]
    if all(a.folder == b.folder for a, b in pairs):
        return []
    done = [(a, b) for a, b in pairs if a.result is not None and b.result is not None]
    if len(done) == len(pairs) or (seeds == ALL and done):
        return done
    missing = [run for pair in pairs for run in pair if run.result is None]
    return f"{missing[0].state}, {missing[0].command}"


def _hypotheses(
    rows: tuple[str, str],
    column: tuple[str, ...],
    pairs: Sequence[tuple[Run, Run]],
    resampling: Resampling,
) -> list[Hypothesis]:
    frames = reading.per_image([run for side in zip(*pairs, strict=True) for run in side])
    a, b = frames[: len(pairs)], frames[len(pairs) :]
    tests = paired_tests(a, b, resampling=resampling, measures=PAPER)
    return [
        Hypothesis(
            *rows,
            column=column,
            measure=measure,
            seeds=tuple(run.seed for run, _ in pairs),
            images=len(a[0]),
            patients=int(a[0]["patient"].nunique()),
            test=tests[measure.name],
            p_holm=tests[measure.name].p,
        )
        for measure in PAPER
    ]
