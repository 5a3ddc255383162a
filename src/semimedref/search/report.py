"""The page of a search: trials, history, importance, Pareto front, the commands that follow."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.results import embedded
from semimedref.results.figure.contract import Figure
from semimedref.results.page import frame
from semimedref.results.sections import minus, scrollable
from semimedref.search import text
from semimedref.search.front import best_trials
from semimedref.search.history import history
from semimedref.search.importance import importance
from semimedref.search.pareto import pareto
from semimedref.search.view import View

KINDS: dict[str, Callable[[View], Figure]] = {
    "history": history,
    "importance": importance,
    "pareto": pareto,
}


def write_report(view: View) -> Path:
    """Write the figures and ``<run_root>/tables/<experiment>.html``; returns the page's path."""
    write_figures(view)
    path = view.search.run_root / "tables" / f"{view.search.name}.html"
    write_atomic(path, render_page(view))
    return path


def write_figures(view: View) -> tuple[list[Path], list[str]]:
    """Every figure that the finished trials can give: its SVG; and why others are missing."""
    folder, written, skipped = view.search.run_root / "tables", [], []
    for kind, build in KINDS.items():
        name = f"{view.search.name}-{kind}"
        try:
            written += build(view).write(folder, name)[:1]
        except UserError as error:
            skipped.append(f"{kind}: {error}")
            for old in folder.glob(f"{name}.*"):  # of a study that this one has replaced
                old.unlink()
    return written, skipped


def figures_command(view: View) -> int:
    """``semimedref figures experiment=NAME`` of a search."""
    written, skipped = write_figures(view)
    for path in written:
        print(f"{path.stem}: {path.with_suffix('')}.{{svg,pdf,png,csv,json}}")
    if not written:
        raise UserError("no figure could be drawn. " + "; ".join(skipped))
    for line in skipped:
        print(f"skipped {line}")
    return 0


def render_page(view: View) -> str:
    """The whole page as text."""
    search = view.search
    parts = [
        ("trials", "Trials", _trials(view)),
        ("figures", "Figures", embedded.figures(search.run_root, search.name)),
        ("reproduce", "Reproduce", _commands(view)),
    ]
    above = f"semimedref · search <span class=mono>{escape(search.name)}</span>"
    summary = f"{view.headline}. {text.summary(search, view.study)}."
    return frame(search.title, above=above, summary=summary, parts=parts)


def _trials(view: View) -> str:
    best = {t.number for t in best_trials(view.study.trials, view.search.objectives)}
    heads = "".join(
        f"<th{' class=n' if i != 1 else ''} scope=col>{escape(label)}</th>"
        for i, label in enumerate(text.header(view))
    )
    lines = []
    for trial in text.ranked(view):
        mark = " best" if trial.number in best else ""
        first, state, *others = text.cells_of(view, trial)
        cells = "".join(f'<td class="n{mark}">{minus(escape(cell))}</td>' for cell in others)
        told = f' title="{escape(trial.reason)}"' if trial.reason else ""
        number = f'<th scope=row class="n{mark}">{first}</th>'
        lines.append(f"<tr>{number}<td{told}>{escape(state)}</td>{cells}</tr>")
    inner = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return scrollable("Trials", inner, caption=text.about(view), sortable=True)


def _commands(view: View) -> str:
    lines = [
        f"semimedref train -m {view.words}    # runs the trials that are missing",
        f"semimedref table {view.words}",
        f"semimedref report {view.words}",
        f"optuna-dashboard sqlite:///{view.search.folder / 'optuna.db'}",
    ]
    best = best_trials(view.study.trials, view.search.objectives)
    lines += ["", "# the best for good, with several seeds"] if best else []
    lines += [view.final(trial) for trial in best]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
