"""PosMed's question-answer tables, wherever they lie below a root, as rows by modality."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from semimedref.dataset.case import Level, Problem
from semimedref.dataset.posmed_modalities import MODALITIES, modality_of
from semimedref.dataset.rows import Row as Cells
from semimedref.dataset.rows import read_rows
from semimedref.dataset.walk import walk
from semimedref.errors import UserError

_NEEDED = {"image_path", "answer"}
_USUAL = _NEEDED | {"image_name", "question", "position", "split"}
_PATIENTS = {"slice_id", "pid", "fold"}


@dataclass(frozen=True)
class Row:
    """One answer about one mask."""

    path: str  # of the mask, as the table says it
    answer: str
    split: str  # as the table says it; empty: the path tells


@dataclass(frozen=True)
class Tables:
    """What was found below a root."""

    rows: dict[str, tuple[Row, ...]]  # by the name of the modality
    sources: dict[str, Path]  # the table that they come from
    patients: Path | None  # patient and fold of every brain slice
    problems: tuple[Problem, ...]


def read_tables(root: Path, named: Path | None) -> Tables:
    """All tables below a root, or those in the file that the user named."""
    files, problems = _read_all(root)
    patients = next((path for path, rows in files.items() if _columns(rows) >= _PATIENTS), None)
    if named is not None:
        files, problems = {named: read_rows(named)}, []
    columns = {path: _columns(rows) for path, rows in files.items()}
    answers = [path for path in files if columns[path] >= _NEEDED]
    if not answers:
        raise UserError(
            f"posmed: no table in {named or root} has the columns {', '.join(sorted(_NEEDED))} and "
            f"rows; expected {', '.join(f'{m.table}.csv' for m in MODALITIES)} in it or below it"
            + "".join(f"; {problem.case}" for problem in problems[:1])
        )
    # A table of its own goes before a joined one, and one with all columns before another.
    answers.sort(key=lambda path: (modality_of(path.stem) is None, -len(columns[path] & _USUAL)))
    found: dict[str, dict[Path, tuple[Row, ...]]] = defaultdict(dict)
    for path in answers:
        known, strange = _by_modality(path, files[path])
        problems += [_of_no_group(path, strange)] if strange else []
        for modality, rows in known.items():
            found[modality][path] = rows
    if not found:
        raise UserError(f"posmed: {problems[-1].kind}: {problems[-1].case}; {problems[-1].fix}")
    return Tables(
        rows={modality: next(iter(tables.values())) for modality, tables in found.items()},
        sources={modality: next(iter(tables)) for modality, tables in found.items()},
        patients=patients,
        problems=(*problems, *(p for tables in found.values() for p in _rivals(tables))),
    )


def path_parts(path: str) -> list[str]:
    """The folders and the file of a path, whichever way its slashes lean."""
    return [part for part in re.split(r"[\\/]+", path.strip()) if part not in ("", ".")]


def is_picture_folder(name: str) -> bool:
    """Whether a folder is one of ``train_images``, ``train_masks`` and their like."""
    return re.fullmatch(r"[a-z]+_(images?|masks?)", name.lower()) is not None


def _read_all(root: Path) -> tuple[dict[Path, list[Cells]], list[Problem]]:
    """Every CSV file below a root; a damaged one is an error only if its name says a group."""
    found: dict[Path, list[Cells]] = {}
    problems: list[Problem] = []
    for path in _csv_files(root):
        try:
            found[path] = read_rows(path)
        except UserError as error:
            level: Level = "error" if modality_of(path.stem) else "warning"
            fix = "copy it again from its source, or remove it"
            problems.append(Problem("table cannot be read", str(error), fix, level))
    return found, problems


def _by_modality(
    path: Path, cells_of_rows: Iterable[Cells]
) -> tuple[dict[str, tuple[Row, ...]], list[Row]]:
    """Rows by modality, and those that nothing tells the modality of.

    A ``dataset`` column counts first, then the file's name, the folder in the row's path, and at
    last the folder that the table lies in.
    """
    rows: dict[str, list[Row]] = defaultdict(list)
    strange: list[Row] = []
    for cells in cells_of_rows:
        where, answer, split, group = (
            str(cells.get(name) or "") for name in ("image_path", "answer", "split", "dataset")
        )
        inside = path_parts(where)[-3:-2]
        hints = (group, path.stem, *inside, path.absolute().parent.name)
        modality = next((m for m in map(modality_of, hints) if m), None)
        own = strange if modality is None else rows[modality.name]
        own.append(Row(where, answer, split))
    return {name: tuple(own) for name, own in rows.items()}, strange


def _of_no_group(path: Path, rows: Sequence[Row]) -> Problem:
    names = ", ".join(m.table for m in MODALITIES)
    return Problem(
        "rows belong to no group",
        f"{path}: {len(rows)} rows, the first: {rows[0].path!r}",
        f"name the table or its folder after its group, one of {names}; or remove the table",
    )


def _csv_files(root: Path) -> list[Path]:
    """CSV files below a root, the least deep first; folders of pictures are not entered."""
    found: list[Path] = []
    for folder, below, names in walk(root):
        below[:] = [name for name in below if not is_picture_folder(name)]
        found += [folder / name for name in names if name.lower().endswith(".csv")]
    files = (path for path in found if path.is_file())  # not a link to nowhere
    return sorted(files, key=lambda path: (len(path.parts), str(path)))


def _columns(rows: Iterable[Cells]) -> set[str]:
    return {name for cells in rows for name in cells}


def _rivals(tables: dict[Path, tuple[Row, ...]]) -> Iterator[Problem]:
    first, *others = tables
    for path in others:
        if tables[path] != tables[first]:
            yield Problem(
                "two different tables for one group",
                f"{path}: {len(tables[path])} rows; {first} counts",
                "keep the published one, or set dataset.annotation=FILE",
                "warning",
            )
