"""One page over all experiments that have a finished run, each with a link to its own page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.config import search_folders
from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.results import render
from semimedref.results.page import frame
from semimedref.results.report import render_page, summary
from semimedref.results.sections import minus, scrollable
from semimedref.results.table import Entry, Table, build_table

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Skipped:
    """An experiment that the page cannot show, and why."""

    name: str
    reason: str


def write_overview(overrides: Sequence[str], *, extra: Sequence[Path], run_root: Path) -> Path:
    """Write ``<run_root>/tables/index.html`` and the page of every experiment it leads to.

    Args:
        overrides: what is set for all experiments, e.g. ``scale=smoke``.
        extra: finished run folders that may complete the headroom.
        run_root: where the runs are.
    """
    finished = {file.parent.name for file in run_root.glob("*/result.json")}
    from tqdm import tqdm

    from semimedref.sweep import expand, expand_ahead, known_experiments

    tables, skipped, searches = [], [], []
    names = known_experiments(search_folders(overrides)) if finished else []
    expand_ahead(names, list(overrides))
    for name in tqdm(names, disable=not sys.stderr.isatty()):
        words = [f"experiment={name}", *overrides]
        try:
            experiment = expand(words)
            if not any(cell.name in finished for cell in experiment.cells):
                continue
            if experiment.search is not None:
                from semimedref.search.report import write_report as write_search

                searches.append((write_search(experiment.search).name, experiment.search.headline))
                continue
            table = build_table(experiment)
            page = render_page(table, overrides=words, extra=extra)
        except UserError as error:  # one broken experiment must not hide the others
            skipped.append(Skipped(name, str(error)))
            continue
        write_atomic(run_root / "tables" / f"{table.name}.html", page)
        tables.append(table)
    path = run_root / "tables" / "index.html"
    page = render_overview(
        tables, skipped, overrides=overrides, runs=len(finished), searches=searches
    )
    write_atomic(path, page)
    return path


def render_overview(
    tables: Sequence[Table],
    skipped: Sequence[Skipped],
    *,
    overrides: Sequence[str],
    runs: int,
    searches: Sequence[tuple[str, str]] = (),
) -> str:
    """The page as text; ``searches`` are file names of pages, each with a summary."""
    done = sum(run.result is not None for table in tables for run in table.runs)
    cells = sum(len(table.runs) for table in tables)
    parts = [("experiments", "Experiments", _list(tables))]
    parts += [(f"experiment-{table.name}", table.title, _section(table)) for table in tables]
    parts.append(("searches", "Searches", _searches(searches)))
    parts.append(("skipped", "Not shown", _skipped(skipped)))
    words = shlex.join(overrides)
    command = f"semimedref report {words}".strip()
    parts.append(("reproduce", "Reproduce", f"<pre>{escape(command)}</pre>"))
    text = f"{len(tables)} experiments, {done} of {cells} cells done, {runs} finished runs"
    return frame("All experiments", above="semimedref", summary=text, parts=parts)


def _list(tables: Sequence[Table]) -> str:
    if not tables:
        return (
            "<p class=soft>No experiment has a finished run here. <code>semimedref train -m "
            "experiment=quickstart</code> makes the first.</p>"
        )
    lines = "".join(
        f'<tr><th scope=row><a href="{escape(table.name)}.html">{escape(table.title)}</a></th>'
        f"<td><code>{escape(table.name)}</code></td>"
        f"<td class=n>{sum(run.result is not None for run in table.runs)}</td>"
        f"<td class=n>{len(table.runs)}</td></tr>"
        for table in tables
    )
    head = (
        "<thead><tr><th scope=col>title</th><th scope=col>experiment</th>"
        "<th class=n scope=col>done</th><th class=n scope=col>cells</th></tr></thead>"
    )
    return scrollable("Experiments", f"{head}<tbody>{lines}</tbody>", sortable=True)


def _section(table: Table) -> str:
    """What is best in each column, and the way to the whole page."""
    metric = table.metrics[0]
    groups = [(column, _ranked(entries, metric)) for column, entries in table.groups]
    across = escape(", ".join(table.columns) or "column")
    lines = "".join(
        f"<tr><td>{escape(', '.join(render.pretty(value) for value in column)) or '–'}</td>"
        f"<th scope=row>{escape(ranked[0].row)}</th>"
        f"<td class=n>{minus(render.format_score(ranked[0].scores[metric]))}</td>"
        f"<td class=n>{len(ranked[0].done)} of {len(ranked[0].runs)}</td>"
        f"<td class=n>{_ahead(ranked, metric)}</td></tr>"
        for column, ranked in groups
        if ranked
    )
    head = (
        f"<thead><tr><th scope=col>{across}</th><th scope=col>best so far</th>"
        f"<th class=n scope=col>{escape(metric)}</th><th class=n scope=col>{escape(table.over)}s"
        "</th><th class=n scope=col>ahead of the next</th></tr></thead>"
    )
    best = scrollable(f"Best rows of {table.title}", f"{head}<tbody>{lines}</tbody>", sortable=True)
    return (
        f'<p class=soft>{escape(summary(table))}. <a href="{escape(table.name)}.html">Table, '
        f"figures, predictions and provenance</a></p>{best if lines else ''}"
    )


def _ranked(entries: Sequence[Entry], metric: str) -> list[Entry]:
    known = [entry for entry in entries if entry.scores[metric].mean is not None]
    return sorted(known, key=lambda entry: entry.scores[metric].mean or 0.0, reverse=True)


def _ahead(ranked: Sequence[Entry], metric: str) -> str:
    if len(ranked) < 2:
        return "–"
    first, second = (entry.scores[metric].mean or 0.0 for entry in ranked[:2])
    return f"{100 * (first - second):+.2f}"


def _searches(searches: Sequence[tuple[str, str]]) -> str:
    lines = "".join(
        f'<li><a href="{escape(page)}">{escape(Path(page).stem)}</a>: {escape(about)}</li>'
        for page, about in searches
    )
    return f"<ul>{lines}</ul>" if lines else ""


def _skipped(skipped: Sequence[Skipped]) -> str:
    lines = "".join(
        f"<li><code>{escape(one.name)}</code>: {escape(one.reason)}</li>" for one in skipped
    )
    return f"<ul class=note>{lines}</ul>" if lines else ""
