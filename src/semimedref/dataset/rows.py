"""Annotation files as rows: CSV (with or without BOM), Excel and JSON come out alike."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from semimedref.errors import UserError

SUFFIXES = (".json", ".xlsx", ".csv", ".tsv")

Row = dict[str, Any]


class NoTableError(UserError):
    """A file that can be read and holds no rows, such as somebody's settings."""


class UnreadableError(UserError):
    """A file that is there and cannot be read."""

    def __init__(self, path: Path, detail: str) -> None:
        kind = path.suffix.lower()[1:]
        super().__init__(
            f"{path} is no readable {kind} annotation ({detail}): copy it again from its source"
        )
        self.detail = detail


def read_rows(path: Path) -> list[Row]:
    """All rows of a table; column names are lower-case, cells are stripped, empty rows are gone.

    A JSON object of lists, such as ``{"train": […], "valid": […]}``, gives rows with a ``split``.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path} is no annotation: expected a file {', '.join(SUFFIXES)}")
    try:
        rows = list(reader(path))
    except NoTableError:
        raise
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: set dataset.annotation=FILE") from None
    except (OSError, ValueError, csv.Error) as error:
        detail = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise UnreadableError(path, detail[0]) from error
    tidy = [{str(k).strip().lower(): _cell(v) for k, v in row.items() if k} for row in rows]
    return [row for row in tidy if any(v not in ("", None) for k, v in row.items() if k != "split")]


def _cell(value: object) -> object:
    """A cell without spaces around it; what other programs write for nothing is nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value.strip() if isinstance(value, str) else value


def _read_csv(path: Path) -> Iterator[Row]:
    text = _decoded(path.read_bytes())
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)  # Excel writes semicolons in many countries
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    for row in reader:
        if any(cell.strip() for cell in row.get(None) or ()):  # cells beyond the last column
            raise ValueError(
                f'line {reader.line_num} has too many columns; put texts with commas in "…"'
            )
        yield row


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252")


def _read_excel(path: Path) -> Iterator[Row]:
    import zlib
    from zipfile import BadZipFile

    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    damage = (BadZipFile, InvalidFileException, KeyError, SyntaxError, zlib.error, EOFError)
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write a wrong size: it would cut off rows
            head, *lines = [*sheet.iter_rows(values_only=True)] or [()]
        finally:
            book.close()
    except damage as error:
        raise ValueError(f"damaged: {error}") from error
    for line in lines:
        cells = zip_longest(head, line[: len(head)])
        yield {str(k): v for k, v in cells if k is not None}


def _read_json(path: Path) -> Iterator[Row]:
    content = json.loads(_decoded(path.read_bytes()))
    groups = content if isinstance(content, dict) else {"": content}
    lists = {name: rows for name, rows in groups.items() if _is_table(rows)}
    if not lists:
        raise NoTableError(f"{path} has no rows: expected lists of objects, by split")
    for name, rows in lists.items():
        for row in rows:
            yield row | ({"split": name} if name else {})


def _is_table(rows: object) -> bool:
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)


_READERS = {".csv": _read_csv, ".tsv": _read_csv, ".xlsx": _read_excel, ".json": _read_json}
