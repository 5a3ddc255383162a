"""Compare each row of a table with the first row, within a column, on the same test images.

In a ladder each row is compared with the row before it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semimedref.results import store
from semimedref.results.significance import PairedTest, holm, paired_test
from semimedref.results.table import RESAMPLING_SEED, Entry, Run, Table

TEST_REPLICATES = 20_000


@dataclass(frozen=True)
class Comparison:
    """A row minus the first, or minus the one before it, over the seeds that both have."""

    row: str
    reference: str
    column: tuple[str, ...]
    seeds: tuple[str, ...]
    images: int
    patients: int
    test: PairedTest
    p_holm: float


def compare_rows(table: Table, *, replicates: int = TEST_REPLICATES) -> list[Comparison]:
    """Test every row against the first, column by column, with Holm's correction in a column.

    A ladder's steps are tested too and belong to the same family.

    Rows are paired by seed: a seed that only one of the two has finished is left out of both.
    """
    if "dice" not in table.metrics:  # the test is one of masks
        return []
    comparisons = []
    for _, entries in table.groups:
        family = [_compare(entry, other, replicates) for entry, other in _pairs(table, entries)]
        found = [comparison for comparison in family if comparison is not None]
        adjusted = holm([comparison.test.p for comparison in found])
        comparisons += [replace(c, p_holm=p) for c, p in zip(found, adjusted, strict=True)]
    return comparisons


def _pairs(table: Table, entries: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    pairs = [(entry, entries[0]) for entry in entries[1:]]
    steps = list(zip(entries[2:], entries[1:], strict=False)) if table.ladder else []
    return pairs + steps


def _compare(entry: Entry, reference: Entry, replicates: int) -> Comparison | None:
    import pandas as pd

    ours = {run.seed: run for run in entry.done}
    theirs = {run.seed: run for run in reference.done}
    seeds = [seed for seed in theirs if seed in ours]
    if not seeds or _same_runs([ours[s] for s in seeds], [theirs[s] for s in seeds]):
        return None
    a = pd.concat([store.load_per_image(ours[seed].folder) for seed in seeds])
    b = pd.concat([store.load_per_image(theirs[seed].folder) for seed in seeds])
    test = paired_test(a, b, replicates=replicates, seed=RESAMPLING_SEED)
    return Comparison(
        row=entry.row,
        reference=reference.row,
        column=entry.column,
        seeds=tuple(seeds),
        images=int(a["id"].nunique()),
        patients=int(a["patient"].nunique()),
        test=test,
        p_holm=test.p,
    )


def _same_runs(a: Sequence[Run], b: Sequence[Run]) -> bool:
    """Two rows may share their runs; a run is not compared with itself."""
    return [run.folder for run in a] == [run.folder for run in b]
