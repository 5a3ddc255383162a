"""Warn when what stands side by side was not made alike: by other code, from other data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from semimedref.metrics import DEFINITION

if TYPE_CHECKING:
    from semimedref.results.runs import Run
    from semimedref.results.store import Result
    from semimedref.results.table import Entry

_LISTED = 6


def warnings(entries: Sequence[Entry]) -> list[str]:
    """One sentence for each kind of mixture, with the rows that it is found in."""
    kinds: tuple[tuple[str, Callable[[Result], str], str], ...] = (
        ("code versions", _code, "train the older ones again in another run_root= to be sure"),
        ("data versions", _data, "`semimedref data verify` says which copy is the published one"),
        ("precisions", _precision, "hardware=fast for all of them, or for none, makes them alike"),
        ("metric definitions", _metric, "`semimedref evaluate` scores a run anew"),
    )
    return [line for name, read, cure in kinds for line in _mixed(entries, name, read, cure)]


def _mixed(
    entries: Sequence[Entry], name: str, read: Callable[[Result], str], cure: str
) -> list[str]:
    rows = [e for e in entries if len(_values(e.done, read)) > 1]
    if rows:
        told = "; ".join(f"{_place(e)}: {', '.join(sorted(_values(e.done, read)))}" for e in rows)
        return [f"Warning: seeds of one row mix {name} ({_short(rows, told)}); {cure}."]
    columns: dict[tuple[str, ...], set[str]] = {}
    for entry in entries:
        columns.setdefault(entry.column, set()).update(_values(entry.done, read))
    found = {column: values for column, values in columns.items() if len(values) > 1}
    if not found or name == "code versions":  # rows of a table may well be trained on other days
        return []
    told = "; ".join(f"{', '.join(c) or 'all'}: {', '.join(sorted(v))}" for c, v in found.items())
    return [f"Warning: rows of one column mix {name} ({told}); {cure}."]


def _short(rows: Sequence[Entry], told: str) -> str:
    if len(rows) <= _LISTED:
        return told
    return f"{'; '.join(told.split('; ')[:_LISTED])}; and {len(rows) - _LISTED} rows more"


def _place(entry: Entry) -> str:
    return ", ".join([entry.row, *entry.column])


def _values(runs: Iterable[Run], read: Callable[[Result], str]) -> set[str]:
    return {read(run.result) for run in runs if run.result is not None} - {""}


def _code(result: Result) -> str:
    commit = str(result.get("git_commit") or "")[:10]
    return " ".join(part for part in (str(result.get("version") or ""), commit) if part)


def _data(result: Result) -> str:
    """What names the copy of the data: its sentences and its partition."""
    data = result.get("data") or {}
    parts = (str(data.get(key) or "")[:8] for key in ("texts_sha256", "partition_sha256"))
    return " ".join(part for part in parts if part)


def _precision(result: Result) -> str:
    """In what the run was trained: fp32, tf32, bf16 or fp16."""
    found = result.get("precision") or {}
    training = str(found.get("training") or "")
    return "tf32" if training == "fp32" and found.get("cudnn_tf32") else training


def _metric(result: Result) -> str:
    return f"definition {result.get('metric_definition', DEFINITION)}"
