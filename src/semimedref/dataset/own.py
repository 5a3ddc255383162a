"""A user's own data set: a table of images, masks and sentences, in any folders.

semimedref train dataset=own dataset.annotation=my.csv dataset.name=my_set
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from semimedref.dataset.annotate import MASK_MISSING
from semimedref.dataset.case import Annotation, Case, Problem
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.named_files import NamedFiles
from semimedref.dataset.own_rows import OPTIONAL, REQUIRED, OwnRows
from semimedref.dataset.roots import data_root
from semimedref.dataset.rows import Row, read_rows
from semimedref.dataset.splits import labeled_subset
from semimedref.errors import UserError


@dataclass(kw_only=True, eq=False)
class OwnDataset(FileDataset):
    """Rows with image, mask, text and split; patient, position and id where there are any.

    A training row may name no mask: it is unlabeled at every ratio. Labeled rows are drawn from
    those that name one, and their number is the ratio of all training rows.
    """

    several_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a data set without its table."""
        if not self.annotation:
            raise UserError(
                "dataset=own has no table: set dataset.annotation=FILE.csv with the columns "
                f"{', '.join(REQUIRED)} (docs/own_data.md)"
            )

    @property
    def options(self) -> str:
        """What chooses this data set on the command line."""
        return f"dataset=own dataset.annotation={self.annotation}"

    @cached_property
    def place(self) -> Path:
        """The root; unless it is set, the folder of the table."""
        table = Path(str(self.annotation)).expanduser().absolute()
        return data_root(self.name, self.root, kind="own") if self.root else table.parent

    def read(self, root: Path, annotation: Path | None) -> Annotation:
        """One case for each row of the table, in its order."""
        table = Path(str(annotation)).absolute()
        rows = read_rows(table)
        columns = _columns(rows, table)
        files = NamedFiles(table.parent, root)
        read = OwnRows(files, self.vocabulary, has_ids="id" in columns)
        cases = read.cases(rows)
        problems = [*read.problems, *_unmasked_rows(cases, read.problems)]
        if "position" in columns and not self.regions:
            fix = "set dataset.vocabulary to say which regions the digits stand for"
            problems.append(Problem("position is not used", table.name, fix, "note"))
        return Annotation(cases, (table,), tuple(problems), f"own table, {table.name}")

    def labeled_places(self, *, fraction: float, split_seed: int) -> tuple[list[int], list[int]]:
        """As many as the ratio of all training rows, drawn from those that name a mask."""
        train = self.found.split("train")
        ids = [case.id for case in train]
        every, _ = labeled_subset(
            ids, fraction=fraction, split_seed=split_seed, rounding=self.rounding
        )
        self._wanted = len(every)
        masked = [i for i, case in enumerate(train) if case.id not in self._unmasked]
        if not masked:
            return [], list(range(len(train)))
        drawn, _ = labeled_subset(
            [ids[i] for i in masked],
            fraction=min(1.0, len(every) / len(masked)),
            split_seed=split_seed,
            rounding="round",  # the number is decided already: a fraction of a whole one is exact
        )
        labeled = [masked[i] for i in drawn]
        return labeled, sorted(set(range(len(train))) - set(labeled))

    def prepare(self, labeled: Sequence[int]) -> None:
        """Refuse a ratio that asks for more masks than there are, and all that others refuse."""
        self._refuse_errors(labeled)
        if len(labeled) < self._wanted:
            n = len(self.found.split("train"))
            raise UserError(
                f"{self.name}: the ratio asks for {self._wanted} labeled images of {n}, and only "
                f"{len(labeled)} rows of train name a mask: at most {_share(len(labeled), n)}"
            )
        super().prepare(labeled)

    def labeled_rule(self, *, split_seed: int) -> str:
        """Which training rows are labeled, in words."""
        return (
            f"the rows of train that name a mask, in the order of the table, shuffled by "
            f"random.Random({split_seed}).shuffle of Python; the first {self.rounding}(n * ratio), "
            "where n counts all rows of train"
        )

    @cached_property
    def _unmasked(self) -> frozenset[str]:
        return _unmasked(self.found.cases, self.found.problems)

    @cached_property
    def _wanted(self) -> int:
        return 0  # until a run says its ratio


def _unmasked(cases: Sequence[Case], problems: Sequence[Problem]) -> frozenset[str]:
    """Training rows that name no mask; where one is named and not there, a file is missing."""
    named = {p.case for p in problems if p.kind == MASK_MISSING}
    train = (c for c in cases if c.split == "train")
    return frozenset(c.id for c in train if c.mask is None and c.id not in named)


def _unmasked_rows(cases: Sequence[Case], problems: Sequence[Problem]) -> Iterator[Problem]:
    """Which rows are never labeled, and what that means for the ratio."""
    rows = sum(case.split == "train" for case in cases)
    without = sorted(_unmasked(cases, problems))
    if without:
        most = _share(rows - len(without), rows)
        fix = f"nothing to do: unlabeled at every ratio; at most {most}"
        for name in without:
            yield Problem("training row without a mask", name, fix, "note")


def _share(part: int, whole: int) -> str:
    """The largest ratio for so many masks, cut and not rounded: one more would be refused."""
    return f"ratio.fraction={math.floor(10_000 * part / whole) / 10_000:g}"


def _columns(rows: Sequence[Row], table: Path) -> set[str]:
    columns = {name for row in rows for name in row}
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        found = ", ".join(sorted(columns)) if rows else "no rows"
        raise UserError(
            f"{table} has {found}: the column {missing[0]!r} is missing, expected "
            f"{', '.join(REQUIRED)} and, if you have them, {', '.join(OPTIONAL)}"
        )
    return columns
