"""Annotation files below a root: which of them hold the sentences, and of which split."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from semimedref.dataset.case import SPLITS, LabeledList
from semimedref.dataset.folders import split_name, split_of
from semimedref.dataset.rows import SUFFIXES, NoTableError, Row, UnreadableError, read_rows
from semimedref.dataset.walk import walk
from semimedref.errors import UserError

_LIST = re.compile(r"(?:^|_)(un)?labeled_(\d*\.?\d+)(?=[._]|$)", re.I)


@dataclass(frozen=True, eq=False)
class Table:
    """One annotation file."""

    path: Path
    rows: tuple[Row, ...]

    @cached_property
    def columns(self) -> frozenset[str]:
        """What its rows have."""
        return frozenset(name for row in self.rows for name in row)

    @property
    def split(self) -> str | None:
        """The split that the file's name, or else its folder's, speaks of."""
        return split_of(self.path.stem) or split_of(self.path.parent.name)

    @property
    def labeled_list(self) -> tuple[bool, float] | None:
        """For a list of the authors: whether of labeled images, and the number in its name."""
        found = _LIST.search(self.path.name)
        return (not found.group(1), float(found.group(2).strip("."))) if found else None

    def rows_of(self, split: str) -> tuple[Row, ...]:
        """Its rows of a split: those that name it; all, if none names any and it is its own."""
        if self.covers:
            return tuple(row for row in self.rows if _split_cell(row) == split)
        return self.rows if self.split == split else ()

    @cached_property
    def covers(self) -> frozenset[str]:
        """The splits that its rows name."""
        return frozenset(s for s in map(_split_cell, self.rows) if s)

    def column(self, names: Sequence[str]) -> str | None:
        """The first of these columns that it has."""
        return next((name for name in names if name in self.columns), None)


@dataclass(frozen=True)
class Chosen:
    """The rows that an adapter is to use, each with its split as the files say it."""

    rows: tuple[tuple[Row, str], ...]
    sources: tuple[Path, ...]
    layout: str
    ordered: bool  # one file lists all splits: its order is the published one
    tables: dict[str, tuple[Table, ...]]  # that each split is read from

    @property
    def splits(self) -> frozenset[str]:
        """Those that have a row."""
        return frozenset(s for s in (split_name(name) for _, name in self.rows) if s)


@dataclass(frozen=True)
class Tables:
    """All annotation files of a place."""

    place: Path
    fitting: tuple[Table, ...]  # that name images
    others: tuple[Table, ...]  # without rows, or without a column of images
    damaged: dict[Path, str]  # why each of them cannot be read

    def inside(self, path: Path) -> str:
        """A file's name below the place."""
        return str(path.relative_to(self.place)) if path != self.place else path.name

    def called_after(self, path: Path) -> str | None:
        """The split that a file's name, or else that of its folder below the place, speaks of."""
        folder = "" if path.parent == self.place else path.parent.name
        return split_of(path.stem) or split_of(folder)


def find_tables(root: Path, named: Path | None, *, image: Sequence[str]) -> Tables:
    """Every table below the root that names images; or below a named folder, or a named file."""
    tables: list[Table] = []
    damaged: dict[Path, UserError] = {}
    place = named or root
    for path in _annotation_files(place) if place.is_dir() else [place]:
        try:
            tables.append(Table(path, tuple(read_rows(path))))
        except NoTableError:
            continue
        except UserError as error:
            damaged[path] = error
    fitting = tuple(table for table in tables if table.column(image))
    if damaged and not fitting:
        raise next(iter(damaged.values()))
    others = tuple(table for table in tables if table not in fitting)
    return Tables(place, fitting, others, {p: _detail(e) for p, e in damaged.items()})


def choose(tables: Sequence[Table], *, text: Sequence[str]) -> Chosen | None:
    """For each split: a table that names it, else one called after it, else the authors' lists."""
    able = with_text(tables, text)
    if not able:
        return None
    picked = {split: tuple(_pick(able, split)) for split in SPLITS}
    used = list(dict.fromkeys(t for found in picked.values() for t in found))
    if len(used) < 2:
        return _of_one(used[0] if used else able[0], picked)
    rows = [pair for split, found in picked.items() for pair in _rows_of(found, split)]
    rows += [(row, name) for t in used for row, name in _nowhere(t)]
    names = ", ".join(t.path.name for t in used)
    sources = tuple(t.path for t in used)
    return Chosen(tuple(rows), sources, f"tables by split: {names}", ordered=False, tables=picked)


def with_text(tables: Sequence[Table], text: Sequence[str]) -> list[Table]:
    """The tables that have one of these columns."""
    return [table for table in tables if table.column(text)]


def is_list(path: Path) -> bool:
    """Whether a file is called like the authors' lists of labeled and unlabeled images."""
    return _LIST.search(path.name) is not None


def labeled_lists(
    tables: Sequence[Table], *, name: Callable[[Row], str], complement: bool
) -> tuple[LabeledList, ...]:
    """The lists of the authors among some tables.

    Args:
        tables: all that were found.
        name: the id of the image that a row is about.
        complement: whether a list of unlabeled images has their share in its name, not the other.
    """
    lists = []
    for table in tables:
        if table.labeled_list is None:
            continue
        labeled, number = table.labeled_list
        fraction = round(1 - number, 6) if complement and not labeled else number
        ids = frozenset(name(row) for row in table.rows if _is_in(row, "train"))
        if 0 < fraction <= 1:
            lists.append(LabeledList(table.path, fraction, labeled, ids))
    return tuple(lists)


def missing(name: str, tables: Tables, expected: str) -> UserError:
    """The error for a folder or a file without a fitting annotation."""
    return UserError(
        f"{name}: no annotation was found in {tables.place}; expected {expected}. Set "
        f"dataset.root=FOLDER or dataset.annotation=FILE{damage(tables)}"
    )


def damage(tables: Tables) -> str:
    """The end of an error: what is there and cannot be read."""
    found = [f"{tables.inside(path)} ({detail})" for path, detail in tables.damaged.items()]
    return f". Found, but unreadable: {', '.join(found)}: copy it again" if found else ""


def _of_one(table: Table, picked: dict[str, tuple[Table, ...]]) -> Chosen:
    called = "train" if table.labeled_list else table.split or ""
    rows = tuple((row, str(row.get("split") or called)) for row in table.rows)
    layout = f"one table, {table.path.name}"
    return Chosen(rows, (table.path,), layout, ordered=True, tables=picked)


def _pick(able: Sequence[Table], split: str) -> list[Table]:
    """The tables that a split is read from: one, or all lists of the authors."""
    plain = [t for t in able if not t.labeled_list]
    naming = [t for t in plain if split in t.covers]
    if naming:
        return [max(naming, key=lambda t: (len(t.covers), len(t.rows_of(split))))]
    called = [t for t in plain if t.rows_of(split)]
    if called:
        return [max(called, key=lambda t: len(t.rows))]
    return [t for t in able if t.labeled_list and any(_is_in(row, split) for row in t.rows)]


def _rows_of(tables: Sequence[Table], split: str) -> list[tuple[Row, str]]:
    """Their rows of a split, each once: every list of the authors repeats most of the others."""
    seen: dict[tuple[str, ...], Row] = {}
    for table in tables:
        if not table.labeled_list:
            return [(row, split) for row in table.rows_of(split)]
        for row in table.rows:
            if _is_in(row, split):
                # Their labels follow two rules: the same image may have two of them.
                key = tuple(str(value) for name, value in row.items() if name != "pseudo_label")
                seen.setdefault(key, row)
    return [(row, split) for row in seen.values()]


def _is_in(row: Row, split: str) -> bool:
    return split_name(str(row.get("split") or "train")) == split


def _split_cell(row: Row) -> str | None:
    """The split that a row names; its cell may hold anything."""
    return split_name(str(row.get("split", "")))


def _nowhere(table: Table) -> list[tuple[Row, str]]:
    """Rows of a table with splits that name none of ours: they must not get lost unseen."""
    unnamed = [row for row in table.rows if table.covers and _split_cell(row) is None]
    return [(row, str(row.get("split", ""))) for row in unnamed]


def _detail(error: UserError) -> str:
    return error.detail if isinstance(error, UnreadableError) else "a link that leads nowhere"


def _annotation_files(root: Path) -> list[Path]:
    return sorted(
        folder / name
        for folder, _, names in walk(root)
        for name in names
        if name.lower().endswith(SUFFIXES) and not name.startswith("~$")
    )
