"""One self-contained HTML page for an experiment: no script, no request to anywhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref import __version__
from semimedref.files import write_atomic
from semimedref.results import evidence, sections, store
from semimedref.results.comparison import compare_rows
from semimedref.results.honest import headroom
from semimedref.results.table import Table, build_table

if TYPE_CHECKING:
    from semimedref.sweep import Experiment

NOTICE = "Unofficial. Research use only; not a medical device."

# The browser itself refuses everything that is not inside the page.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(
    experiment: Experiment, *, overrides: Sequence[str] = (), extra: Sequence[Path] = ()
) -> Path:
    """Write ``<run_root>/tables/<experiment>.html`` and return its path.

    Args:
        experiment: what to show.
        overrides: the words that named it on the command line, for "how to reproduce".
        extra: finished run folders outside the experiment that may complete the headroom.
    """
    page = render_page(build_table(experiment), overrides=overrides, extra=extra)
    path = Path(experiment.run_root) / "tables" / f"{experiment.name}.html"
    write_atomic(path, page)
    return path


def render_page(table: Table, *, overrides: Sequence[str], extra: Sequence[Path]) -> str:
    """The whole page as text."""
    found = [run.result for run in table.runs if run.result is not None]
    room = headroom(found, (store.load_result(folder) for folder in extra))
    parts = [
        ("results", "Results", sections.results(table)),
        ("honest", "Honest numbers", sections.honest_numbers(table, room)),
        ("curves", "Learning curves", sections.learning_curves(table)),
        ("significance", "Significance", sections.significance(table, compare_rows(table))),
        ("overlays", "Predictions", evidence.gallery(table)),
        ("analyses", "Analyses", evidence.analyses(table)),
        ("rows", "What differs between the rows", evidence.row_differences(table)),
        ("provenance", "Provenance", evidence.provenance(table)),
        ("reproduce", "Reproduce", evidence.commands(table, overrides)),
    ]
    parts = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in parts)
    body = "".join(
        f'<section id={name} aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(title)}</h2>'
        f"{content}</section>\n"
        for name, title, content in parts
    )
    return (
        f"{_head(table)}<body>\n<header><p class=eyebrow>semimedref · experiment "
        f"<span class=mono>{escape(table.name)}</span></p><h1>{escape(table.title)}</h1>"
        f"<p class=soft>{escape(_summary(table))}</p><p class=notice>{NOTICE}</p>"
        f'<nav aria-label="Sections">{links}</nav></header>\n<main>\n{body}</main>\n'
        f"<footer>semimedref {escape(__version__)} · {_now()} · {NOTICE}</footer>\n"
        "</body>\n</html>\n"
    )


def _head(table: Table) -> str:
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        '<meta name=referrer content=no-referrer>\n<link rel=icon href="data:,">\n'
        f"<title>{escape(table.title)} · semimedref</title>\n<style>\n{css}</style>\n</head>\n"
    )


def _summary(table: Table) -> str:
    done = sum(run.result is not None for run in table.runs)
    parts = [f"{done} of {len(table.runs)} cells done"]
    tests = {
        (int(run.result["test"].get("images") or 0), int(run.result["test"].get("patients") or 0))
        for run in table.runs
        if run.result is not None
    }
    parts += [f"test set: {i:,} images of {p:,} patients" for i, p in sorted(tests) if i]
    seconds = {
        run.cell.signature: run.result.get("wall_seconds", 0.0)
        for run in table.runs
        if run.result is not None
    }
    if seconds:
        parts.append(f"{evidence.duration(sum(seconds.values()))} of training")
    return " · ".join(parts)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
