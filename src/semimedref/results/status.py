"""The state of every cell of an experiment, as a compact grid."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from semimedref import config
from semimedref.errors import UserError
from semimedref.results import store
from semimedref.results.grid import grid
from semimedref.results.render import percent, place, pretty
from semimedref.results.runs import Run, column_of, read_runs

if TYPE_CHECKING:
    from semimedref.sweep import Experiment

_SIGNS: dict[store.State, str] = {
    "done": "✓ done",
    "running": "▸ running",
    "queued": "◦ queued",
    "failed": "✗ failed",
    "paused": "‖ paused",
    "missing": "· missing",
}


def render_status(experiment: Experiment) -> str:
    """Row × column × seed with each cell's state, the counts, and the reason of each failure."""
    seeds = list(dict.fromkeys(cell.point.get(experiment.over, "") for cell in experiment.cells))
    found: dict[tuple[tuple[str, ...], str], dict[str, str]] = {}
    counts: Counter[store.State] = Counter()
    failures = []
    for cell, (run, problem) in zip(experiment.cells, _looked(experiment), strict=True):
        counts[run.state] += 1
        column = column_of(cell, experiment)
        line = found.setdefault((column, cell.row), dict.fromkeys(seeds, ""))
        line[run.seed] = _describe(run)
        if problem:
            failures.append(f"{place(cell.row, column)}, {run.seed}: {problem}")
            failures.append(f"    {run.command}")
    lines = [[*experiment.columns, "method", *seeds]]
    order = list(dict.fromkeys(column for column, _ in found))
    for (column, row), states in sorted(found.items(), key=lambda item: order.index(item[0][0])):
        lines.append([*(pretty(value) for value in column), row, *states.values()])
    parts = [_counts(experiment, counts), "", *grid(lines, left=len(lines[0]))]
    if failures:
        parts += ["", "Failures, each with the command that tries again:", *failures]
    return "\n".join(parts) + "\n"


def print_overview(overrides: list[str]) -> None:
    """A line for every experiment as soon as it is known, then how many runs they share."""
    from semimedref.sweep import expand, expand_ahead, known_experiments

    names = known_experiments(config.search_folders(overrides))
    expand_ahead(names, overrides)
    width = max(map(len, names))
    seen: dict[str, store.State] = {}
    cells = 0
    for name in names:
        experiment = expand([f"experiment={name}", *overrides])
        states = {run.cell.name: run.state for run, _ in _looked(experiment)}
        cells += len(experiment.cells)
        seen |= states
        counts = Counter(states.values())
        parts = [f"{counts[state]} {state}" for state in store.STATES if counts[state]]
        told = ", ".join(parts) or "nothing to train: every row is reported"
        if experiment.search is not None:
            told = experiment.search.headline
        print(f"{name:{width}s}  {len(states):4d} runs  {told}", flush=True)
    counts = Counter(seen.values())
    parts = [f"{counts[state]} {state}" for state in store.STATES if counts[state]]
    print(f"\n{len(names)} experiments, {cells} cells, {len(seen)} runs: {', '.join(parts)}")


def _looked(experiment: Experiment) -> list[tuple[Run, str]]:
    """Every cell's run, in order, and what is wrong with it."""
    return [(run, run.problem or _failure(run)) for run in read_runs(experiment)]


def _failure(run: Run) -> str:
    """Why the last attempt failed; a broken note of it is said as it is."""
    if run.state != "failed":
        return ""
    try:
        return store.load_failure(run.folder)
    except UserError as error:
        return str(error)


def _describe(run: Run) -> str:
    sign = _SIGNS[run.state]
    if run.result is not None:
        return f"{sign} {percent(store.main_score(run.result['test']), 1)}"
    if run.state not in ("running", "paused"):
        return sign
    try:
        metrics = store.load_metrics(run.folder)
    except UserError:
        return sign
    if not metrics:
        return sign
    reached = store.main_score(metrics[-1], "val/")
    score = "" if reached is None else f", val {percent(reached, 1)}"
    return f"{sign} epoch {metrics[-1]['epoch']:g}{score}"


def _counts(experiment: Experiment, counts: Counter[store.State]) -> str:
    total = len(experiment.cells)
    shared = total - len({cell.signature for cell in experiment.cells})
    parts = [f"{counts[state]} {state}" for state in store.STATES if counts[state]]
    note = f" ({shared} shared between rows)" if shared else ""
    cells = "1 cell" if total == 1 else f"{total} cells"
    return f"{experiment.name}: {cells}{note}, {', '.join(parts) or 'nothing to do'}"
