"""Names of images and patients replaced by numbers, so that a table of counts can leave a hospital.

The k-th image of the sorted names becomes number k, and so do patients. The rule needs no key and
no memory: every run on the same test set, in whichever archive, gets the same numbers, so paired
tests still pair, and patients keep their order, so resampling draws the same ones. A hash of the
names, even a keyed one whose key is in the archive, could be undone by trying all names that a
hospital gives; a rank tells nothing to whoever has not the list itself. The tag before the number
is a hash of the renumbered table, of nothing else, and keeps two test sets apart.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

ID, PATIENT = "id", "patient"
_RENUMBERED = re.compile(r"[0-9a-f]{8}-i[0-9]+")
_WORDS = ("domain", "position")  # columns of words that are the same for many images
RULE = "images and patients are numbered in the order of their sorted names, per test set"

_TAG = 8  # hex digits


@dataclass(frozen=True)
class Table:
    """A CSV table as text."""

    columns: list[str]
    rows: list[list[str]]

    @classmethod
    def parse(cls, text: str) -> Table:
        """The table of a CSV text."""
        columns, *rows = csv.reader(io.StringIO(text, newline=""))
        return cls(columns, rows)

    def column(self, name: str) -> list[str]:
        """The values of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def text(self) -> str:
        """The table as CSV text."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()


@dataclass(frozen=True)
class Renumbering:
    """The new names of the images and patients of one test set."""

    images: dict[str, str]
    patients: dict[str, str]

    @classmethod
    def of(cls, table: Table) -> Renumbering:
        """The renumbering that ``per_image.csv`` decides."""
        images, patients = _ranks(table.column(ID)), _ranks(table.column(PATIENT))
        true_pixels = zip(*(map(int, table.column(name)) for name in ("tp", "fn")), strict=True)
        seen = zip(table.column(ID), table.column(PATIENT), map(sum, true_pixels), strict=True)
        lines = sorted((images[image], patients[patient], n) for image, patient, n in seen)
        tag = hashlib.sha256(repr(lines).encode()).hexdigest()[:_TAG]
        return cls(_names(images, f"{tag}-i"), _names(patients, f"{tag}-p"))

    def apply(self, table: Table) -> tuple[Table, list[str]]:
        """The table under new names, sorted by them, and the columns that had to be left out.

        A column stays if it is domain or position, or holds numbers only: other words may be names.

        Raises:
            KeyError: The table names an image or a patient that the test set does not have.
        """
        kept = [name for name in table.columns if _may_stay(name, table)]
        new = {ID: self.images, PATIENT: self.patients}
        values = [
            [new[name][v] for v in table.column(name)] if name in new else table.column(name)
            for name in kept
        ]
        rows = sorted(
            ([*row] for row in zip(*values, strict=True)), key=lambda r: r[kept.index(ID)]
        )
        return Table(kept, rows), [name for name in table.columns if name not in kept]


def alike(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Per-image tables under one set of names: beside an imported run, local ones are renumbered.

    The rule depends on the test set alone, so equal test sets get equal names.
    """
    marks = [bool(_RENUMBERED.fullmatch(str(frame[ID].iloc[0]))) for frame in frames]
    if all(marks) or not any(marks):
        return list(frames)
    return [
        frame if done else _renumbered(frame) for frame, done in zip(frames, marks, strict=True)
    ]


def _renumbered(frame: pd.DataFrame) -> pd.DataFrame:
    if PATIENT not in frame.columns:
        return frame
    columns = [ID, PATIENT, "tp", "fn"]
    rows = [[str(value) for value in row] for row in frame[columns].itertuples(index=False)]
    new = Renumbering.of(Table(columns, rows))
    return frame.assign(id=frame[ID].map(new.images), patient=frame[PATIENT].map(new.patients))


def _ranks(names: list[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(sorted(set(names)), start=1)}


def _names(ranks: dict[str, int], prefix: str) -> dict[str, str]:
    width = len(str(len(ranks)))  # the order of the texts is that of the numbers
    return {name: f"{prefix}{rank:0{width}d}" for name, rank in ranks.items()}


def _may_stay(name: str, table: Table) -> bool:
    return name in (ID, PATIENT, *_WORDS) or all(map(_is_number, table.column(name)))


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True
