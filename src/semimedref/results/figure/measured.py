"""What ``semimedref analyze`` measured of the runs of a table, read back for one figure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semimedref.errors import UserError
from semimedref.results.figure import scores
from semimedref.results.runs import Run
from semimedref.results.table import Table


@dataclass(frozen=True)
class Measured:
    """The numbers of one run under the name by which a figure calls it."""

    name: str
    numbers: dict[str, Any]
    source: str  # the run folder's name


def gather(
    table: Table, what: str, *, key: str, split: str, asked: Callable[[Run], bool]
) -> list[Measured]:
    """The first measured run of every line of the table.

    Args:
        table: whose finished runs are looked through.
        what: the analysis.
        key: what its numbers must hold; files of an older version may lack it.
        split: on which it was made.
        asked: whether a run can be measured at all; they are named in the command that is missing.
    """
    scores.require_results(table)
    several = len(table.groups) > 1
    file = what if split == "valid" else f"{what}-{split}"
    found: dict[str, Measured] = {}
    for entry in scores.plain(table.entries):
        where = scores.column_name(entry.column)
        name = f"{entry.row}, {where}" if several and where else entry.row
        for run in entry.done:
            numbers = _read(run, file)
            if key in numbers and name not in found:
                found[name] = Measured(name, numbers, run.folder.name)
    if not found:
        raise UserError(_missing(table, what, split, asked))
    return list(found.values())


def _read(run: Run, file: str) -> dict[str, Any]:
    path = run.folder / "analysis" / f"{file}.json"
    if not path.is_file():
        return {}
    try:
        numbers = json.loads(path.read_text())
    except ValueError:
        numbers = None
    if not isinstance(numbers, dict):
        raise UserError(f"{path} is not what an analysis writes: delete it and analyze again")
    return numbers


def _missing(table: Table, what: str, split: str, asked: Callable[[Run], bool]) -> str:
    finished = scores.plain(table.entries)
    entries = [entry for entry in finished if entry.column == finished[0].column]
    names = [entry.done[0].folder.name for entry in entries if asked(entry.done[0])]
    if not names:
        return f"no finished row of {table.name} can be asked for {what}"
    where = f" run_root={table.run_root}" + ("" if split == "valid" else f" split={split}")
    if what == "alignment":
        return f"not measured yet: `semimedref analyze {what} run={','.join(names)}{where}`"
    more = f", and so for {len(names) - 1} more rows" if len(names) > 1 else ""
    return f"not measured yet: `semimedref analyze {what} run={names[-1]}{where}`{more}"
