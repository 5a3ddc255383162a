"""What figures of a table share: the score that is drawn, its values in percent, its words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from semimedref.errors import UserError
from semimedref.results import render, wording
from semimedref.results.table import Entry, Score, Table

INTERVAL = (
    "95 % bootstrap intervals: patients are drawn, and with several seeds, seeds and patients"
)


def main_metric(table: Table) -> str:
    """Dice, or the first metric of a table that has none."""
    return "dice" if "dice" in table.metrics else table.metrics[0]


def label(metric: str) -> str:
    """The metric's name with its unit."""
    return f"{metric_name(metric)} (%)"


def metric_name(metric: str) -> str:
    """The metric as it is written."""
    return wording.metric(metric)


def percent(value: float | None) -> float | None:
    """A fraction in percent, as the sidecar tables hold it."""
    return None if value is None else round(100 * value, 4)


def score_of(entry: Entry, metric: str) -> Score:
    """The entry's score, empty where it has none."""
    return entry.scores.get(metric, Score(()))


def ends(score: Score) -> tuple[float | None, float | None]:
    """The interval in percent."""
    return (percent(score.ci[0]), percent(score.ci[1])) if score.ci else (None, None)


def column_name(column: Sequence[str]) -> str:
    """The values of the table's columns in words."""
    return ", ".join(render.pretty(value) for value in column if value)


def seeds_in_words(entries: Iterable[Entry], metric: str) -> str:
    """``3 seeds`` or ``1 to 3 seeds``, over the entries that have a value."""
    counts = {score_of(entry, metric).n for entry in entries} - {0}
    low, high = min(counts), max(counts)
    shown = str(low) if low == high else f"{low} to {high}"
    return f"{shown} seed{'s' if high > 1 else ''}"


def plain(entries: Iterable[Entry]) -> list[Entry]:
    """The entries that show the plain test of runs of their own, each run once.

    Several lines of a table may read one run along different axes, or share it.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.done and not any(run.cell.evaluation for run in entry.runs):
            found.setdefault(entry.done[0].folder.name, entry)
    return list(found.values())


def sources(entries: Iterable[Entry]) -> list[str]:
    """Names of the finished runs, each once."""
    return list(dict.fromkeys(run.folder.name for entry in entries for run in entry.done))


def require_results(table: Table) -> None:
    """Refuse a table without a finished run, with the command that trains it."""
    if not any(entry.done for entry in table.entries):
        words = table.runs[0].experiment if table.runs else (f"experiment={table.name}",)
        raise UserError(
            f"no cell of {table.name} is finished: `semimedref train -m {shlex.join(words)}`"
        )
