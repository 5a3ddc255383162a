"""Compare rows of a table within a column, on the same test images.

The experiment names the pairs; if it names none, each row is compared with the first one that has
runs, and in a ladder with the row before it, too; controls are no steps of a ladder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semimedref.results import reading
from semimedref.results.index import Index
from semimedref.results.measures import DICE
from semimedref.results.resampling import Resampling
from semimedref.results.runs import Run
from semimedref.results.significance import PairedTest, holm, paired_tests
from semimedref.results.table import Entry, Table


@dataclass(frozen=True)
class Comparison:
    """A row minus its reference: means over the seeds that both have."""

    row: str
    reference: str
    column: tuple[str, ...]
    seeds: tuple[str, ...]
    images: int
    patients: int
    test: PairedTest
    p_holm: float


def compare_rows(table: Table) -> list[Comparison]:
    """Test the table's pairs of rows, column by column, with Holm's correction in a column.

    Rows are paired by seed: a seed that only one of the two has finished is left out of both.
    """
    if "dice" not in table.metrics:  # the test is one of masks
        return []
    comparisons = []
    with Index.open(table.run_root) as index:
        for _, entries in table.groups:
            pairs = _pairs(table, entries)
            often = table.resampling
            family = [_tried(one, other, often, index=index) for one, other in pairs]
            found = [comparison for comparison in family if comparison is not None]
            adjusted = holm([comparison.test.p for comparison in found])
            comparisons += [replace(c, p_holm=p) for c, p in zip(found, adjusted, strict=True)]
    return comparisons


def _pairs(table: Table, entries: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Which lines of a column are tested: as the experiment says, else each against the first.

    Only lines with counts of every image can be: not the reported, not another evaluation.
    """
    tested = [entry for entry in entries if entry.runs and entry.plain]
    if table.comparisons:
        rows = {entry.row: entry for entry in tested}
        named = (pair for pair in table.comparisons if set(pair) <= rows.keys())
        return [(rows[row], rows[reference]) for row, reference in named]
    pairs = [(entry, tested[0]) for entry in tested[1:]]
    if not table.ladder:
        return pairs
    ladder = [entry for entry in tested if entry.row not in table.controls]
    return pairs + list(zip(ladder[2:], ladder[1:], strict=False))


def _tried(entry: Entry, reference: Entry, often: Resampling, *, index: Index) -> Comparison | None:
    """A comparison, or None where files are damaged: the table warns of them."""
    if entry.problems or reference.problems:
        return None
    return _compare(entry, reference, often, index=index)


def _compare(
    entry: Entry, reference: Entry, often: Resampling, *, index: Index
) -> Comparison | None:
    ours = {run.seed: run for run in entry.done}
    theirs = {run.seed: run for run in reference.done}
    seeds = [seed for seed in theirs if seed in ours]
    a, b = ([side[seed] for seed in seeds] for side in (ours, theirs))
    if not seeds or _same_runs(a, b):
        return None
    images, patients, difference, low, high, p, *interval = index.remember(
        "paired dice",
        [run.folder / "per_image.csv" for run in (*a, *b)],
        lambda: _test(a, b, often),
        parameters=[reading.domain_of(a[0].cell), often.bootstrap, often.randomization, often.seed],
    )
    hierarchical = (interval[0], interval[1]) if interval else None
    test = PairedTest(difference, low, high, p, hierarchical)
    return Comparison(
        row=entry.row,
        reference=reference.row,
        column=entry.column,
        seeds=tuple(seeds),
        images=int(images),
        patients=int(patients),
        test=test,
        p_holm=test.p,
    )


def _test(ours: Sequence[Run], theirs: Sequence[Run], often: Resampling) -> list[float]:
    """Images, patients and the numbers of the test, as the index keeps them."""
    frames = reading.per_image([*ours, *theirs])
    a, b = frames[: len(ours)], frames[len(ours) :]
    test = paired_tests(a, b, resampling=often, measures=[DICE])[DICE.name]
    numbers = [test.difference, test.ci_low, test.ci_high, test.p, *(test.hierarchical or ())]
    return [len(a[0]), int(a[0]["patient"].nunique()), *numbers]


def _same_runs(a: Sequence[Run], b: Sequence[Run]) -> bool:
    """Two rows may share their runs; a run is not compared with itself."""
    return [run.folder for run in a] == [run.folder for run in b]
