"""What is said under a table: how costs were counted, what the paper's columns are, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from semimedref.results import cost, resources

if TYPE_CHECKING:
    from semimedref.results.runs import Run
    from semimedref.results.table import Entry
    from semimedref.sweep import Experiment


def notes(experiment: Experiment, entries: Sequence[Entry]) -> list[str]:
    """How costs were counted and measured, what the paper's columns are, and leaks."""
    lines = []
    if experiment.scale == "smoke":
        lines.append("Warning: scale=smoke trains for seconds; its numbers mean nothing.")
    if experiment.cost and experiment.cells:
        sides = {cost.side_of(cell.config) for cell in experiment.cells}
        lines.append(cost.CONVENTION.format(side=" and ".join(map(str, sorted(sides)))))
    lines += resources.notes(experiment.resources, entries)
    if experiment.paper and experiment.scale != "paper":
        lines.append(
            f"The paper's values stand beside results of scale=paper alone; these are of "
            f"scale={experiment.scale}."
        )
    values = [value for entry in entries for value in entry.reported.values()]
    if values:
        lines.append(_paper_note(experiment))
    if any(value.family == "other" for value in values):
        lines.append(
            "°: another metric family, its Dice and mIoU cannot both pool the counts of the whole "
            "test set; neither compared nor marked best (`semimedref audit`)."
        )
    return lines + remarks(experiment, entries) + chosen_by_test(entries)


def remarks(experiment: Experiment, entries: Sequence[Entry]) -> list[str]:
    """What the experiment's file says of rows."""
    rows = {entry.row for entry in entries}
    return [f"{row}: {text}." for row, text in experiment.remarks.items() if row in rows]


def chosen_by_test(entries: Sequence[Entry]) -> list[str]:
    """Names the rows whose epochs were chosen by the test set, as a release did."""
    rows = {
        entry.row
        for entry in entries
        for run in entry.done
        if run.result and run.result.get("selected_on") == "test"
    }
    named = [row for row in dict.fromkeys(entry.row for entry in entries) if row in rows]
    if not named:
        return []
    return [
        f"Warning: epochs were chosen by the test set, as released, in {', '.join(named)}: such "
        "test scores are too good."
    ]


def _paper_note(experiment: Experiment) -> str:
    runs = "one run" if experiment.paper_seeds == 1 else f"{experiment.paper_seeds} runs"
    runs += " unless it reports a deviation (then 3)"
    return (
        "paper: the value that Semi-MedRef's authors report; reported: a method that is not built "
        "here. Δ: ours minus the paper's, in points; within: not larger than what seeds explain, "
        f"t · sqrt(s²/n + s²/m), the paper's value taken as the mean of {runs} (m)."
    )


def data_warnings(runs: Iterable[Run]) -> tuple[str, ...]:
    """What verification warned of, as the results carry it: every table and report repeats it."""
    found: dict[str, None] = {}
    for run in runs:
        data = run.result.get("data", {}) if run.result else {}
        named = f"Data, {run.cell.config['dataset']['name']}: " if data else ""
        found |= dict.fromkeys(f"{named}{text}." for text in data.get("warnings", ()))
    return tuple(found)
