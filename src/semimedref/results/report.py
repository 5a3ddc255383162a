"""One self-contained HTML page for an experiment: no request to anywhere, whole without script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.files import write_atomic
from semimedref.results import embedded, evidence, learning, sections, store
from semimedref.results.browser import browser
from semimedref.results.comparison import compare_rows
from semimedref.results.honest import headroom
from semimedref.results.page import frame
from semimedref.results.table import Table, build_table

if TYPE_CHECKING:
    from semimedref.sweep import Experiment


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
        ("curves", "Learning curves", learning.learning_curves(table)),
        ("significance", "Significance", sections.significance(table, compare_rows(table))),
        ("figures", "Figures", embedded.figures(table.run_root, table.name)),
        ("predictions", "Predictions", browser(table)),
        ("analyses", "Analyses", evidence.analyses(table)),
        ("rows", "What differs between the rows", evidence.row_differences(table)),
        ("provenance", "Provenance", evidence.provenance(table)),
        ("reproduce", "Reproduce", evidence.commands(table, overrides)),
    ]
    above = f"semimedref · experiment <span class=mono>{escape(table.name)}</span>"
    return frame(table.title, above=above, summary=summary(table), parts=parts)


def summary(table: Table) -> str:
    """How much of the table is done, on what, and what it took."""
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
