"""The learning curves of the report page, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from semimedref.errors import UserError
from semimedref.results import charts, render, store
from semimedref.results.runs import Run
from semimedref.results.sections import key, scrollable
from semimedref.results.table import Entry, Table


def learning_curves(table: Table) -> str:
    """One small multiple per column on one vertical scale, one color per row."""
    panels = [(column, _lines(table, entries)) for column, entries in table.groups]
    values = [value for _, lines in panels for line in lines for _, value in line.points]
    if not values:
        return "<p class=soft>No epoch has ended yet.</p>"
    high = min(1.0, max(max(values) * 1.06, 0.1))
    figures = []
    score = "mAP" if "map" in table.metrics else "Dice"
    for column, lines in panels:
        title = ", ".join(render.pretty(value) for value in column) or table.title
        if not lines:
            continue
        chart = charts.curves(lines, title=title, rows=table.trained, high=high, score=score)
        figures.append(f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>")
    drawn = {line.row for _, lines in panels for line in lines}
    named = [(i, row) for i, row in enumerate(table.trained) if i in drawn]
    legend = "".join(f"<li>{key(i)}{escape(row)}</li>" for i, row in named)
    caption = (
        f"Validation {score}, in percent, after each epoch; thin: one {table.over}, thick: the "
        f"mean over {table.over}s. From the eighth row on, lines are dashed."
    )
    return (
        f"<p class=note>{escape(caption)}</p><ul class=legend>{legend}</ul>"
        f"<div class=multiples>{''.join(figures)}</div>{_last_epochs(table, panels)}"
    )


def _last_epochs(table: Table, panels: Sequence[tuple[tuple[str, ...], list[charts.Line]]]) -> str:
    """The numbers of the curves: first, best and last epoch of every run."""
    lines = []
    for column, found in panels:
        for line in found:
            place_ = render.place(table.trained[line.row], column)
            best = max(line.points, key=lambda point: point[1])
            shown = (line.points[0], best, line.points[-1])
            texts = "".join(f"<td class=n>{e:g}: {render.percent(v)}</td>" for e, v in shown)
            name = escape(f"{place_}, {line.seed}")
            lines.append(f"<tr><th scope=row>{name}</th>{texts}</tr>")
    labels = ("run", "first epoch: score", "best epoch: score", "last epoch: score")
    head = "".join(f"<th scope=col>{label}</th>" for label in labels)
    inner = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    numbers = scrollable("Numbers of the learning curves", inner, sortable=True)
    return f"<details><summary>Numbers of the curves</summary>{numbers}</details>"


def _lines(table: Table, entries: Sequence[Entry]) -> list[charts.Line]:
    lines = []
    for entry in entries:
        for run in entry.runs:
            rows = _metrics(run)
            scores = [(row["epoch"], store.main_score(row, "val/")) for row in rows]
            points = tuple((epoch, score) for epoch, score in scores if score is not None)
            if points:
                lines.append(charts.Line(table.trained.index(entry.row), run.seed, points))
    return lines


def _metrics(run: Run) -> list[dict[str, float]]:
    """The rows of a run's epochs; a damaged file has none, and the other runs are still drawn."""
    try:
        return store.load_metrics(run.folder)
    except UserError:
        return []
