"""A search in words: the list of its trials, the best of them, what to do next."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from semimedref.results.grid import grid
from semimedref.search.front import best_trials
from semimedref.search.record import Study, Trial
from semimedref.search.settings import Search
from semimedref.search.view import View

_SIGNS = {"open": "· open", "done": "✓ done", "stopped": "‖ stopped", "failed": "✗ failed"}
_UNDER_WAY = {
    "waits": "◦ queued",
    "runs": "▸ running",
    "gone": "✗ lost (the same command trains it again)",
}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"


def status(view: View, *, style: bool) -> str:
    """Every trial in the order of its number; the best in bold on a terminal."""
    lines = [f"{view.search.name}: {view.headline}"]
    lines += [about(view), "", *_grid(view, view.study.trials, style=style)]
    reasons = [f"trial {t.number}: {t.reason}" for t in view.study.trials if t.state == "failed"]
    lines += ["", "Failures; retry_failed=true runs them again:", *reasons] if reasons else []
    return "\n".join([*lines, *_next(view)]) + "\n"


def table(view: View, *, style: bool) -> str:
    """Trials from the best to the worst, and the command for the best."""
    lines = [view.search.title, about(view), "", *_grid(view, ranked(view), style=style)]
    return "\n".join([*lines, *_next(view)]) + "\n"


def markdown(view: View) -> str:
    """The table as Markdown; the best trials are bold."""
    best = _numbers(view)
    head = header(view)
    out = [f"# {view.search.title}", "", _md(head), _md(["--:"] * len(head))]
    for trial in ranked(view):
        cells = cells_of(view, trial)
        out.append(_md([f"**{c}**" if trial.number in best and c else c for c in cells]))
    return "\n".join([*out, "", about(view), *_next(view)]) + "\n"


def csv_text(view: View) -> str:
    """All numbers in full, in the order of the trials."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    keys = [one.key for one in view.search.objectives]
    writer.writerow(["trial", "state", *keys, *view.search.space, "run", "reason"])
    for t in view.study.trials:
        values = t.values or [""] * len(keys)
        params = [t.params.get(key, "") for key in view.search.space]
        writer.writerow([t.number, t.state, *values, *params, t.run, t.reason])
    return text.getvalue()


def summary(search: Search, study: Study) -> str:
    """The end of a search: what is best."""
    best = best_trials(study.trials, search.objectives)
    if not best:
        return "no trial is finished yet"
    told = [f"trial {t.number} ({values_of(search, t)})" for t in best]
    name = "best" if len(search.objectives) == 1 else "Pareto front"
    return f"{name}: {', '.join(told)}"


def values_of(search: Search, trial: Trial) -> str:
    """The objectives of a trial in one phrase."""
    pairs = zip(search.objectives, trial.values or (), strict=False)
    return ", ".join(f"{one.key} {number(one.key, value)}" for one, value in pairs)


def number(key: str, value: float) -> str:
    """A validation score in percent, a cost as it is."""
    return f"{100 * value:.2f}" if key.startswith("val/") else f"{value:,.6g}"


def ranked(view: View) -> list[Trial]:
    """Finished trials from the best to the worst by the first objective, then all others."""
    done = [t for t in view.study.trials if t.state == "done"]
    sign = -1 if view.search.objectives[0].direction == "maximize" else 1
    done.sort(key=lambda t: (sign * (t.values or [0.0])[0], t.number))
    return done + [t for t in view.study.trials if t.state != "done"]


def header(view: View) -> list[str]:
    """Column headings."""
    return ["trial", "state", *(one.key for one in view.search.objectives), *view.search.space]


def cells_of(view: View, trial: Trial) -> list[str]:
    """One line of the list; a stopped trial shows what it had reached."""
    keys = [one.key for one in view.search.objectives]
    values = trial.values or [None] * len(keys)
    shown = ["" if v is None else number(k, v) for k, v in zip(keys, values, strict=True)]
    sign = _UNDER_WAY.get(view.under_way(trial)) or _SIGNS[trial.state]
    if trial.state == "stopped":
        sign += f" at epoch {len(trial.curve)}"
    params = [_short(trial.params.get(key)) for key in view.search.space]
    return [str(trial.number), sign, *shown, *params]


def _grid(view: View, trials: Sequence[Trial], *, style: bool) -> list[str]:
    lines = grid([header(view), *(cells_of(view, trial) for trial in trials)], left=2)
    best = _numbers(view)
    bold = [False, *(style and trial.number in best for trial in trials)]
    marked = zip(lines, bold, strict=True)
    return [f"{_BOLD}{line}{_RESET}" if strong else line for line, strong in marked]


def _numbers(view: View) -> set[int]:
    return {trial.number for trial in best_trials(view.study.trials, view.search.objectives)}


def about(view: View) -> str:
    """Study, objectives, sampler and rule in one sentence."""
    search = view.search
    wanted = ", ".join(f"{one.key} ({one.direction})" for one in search.objectives)
    kind = search.sampler["_target_"].rpartition(".")[2]
    rule = ""
    if search.stop:
        rule = f"; from epoch {search.stop.warmup + 1} on a trial under the median stops"
    return (
        f"Study {search.study}: {wanted} on validation images, {kind}, seed {search.seed}, "
        f"{search.batch} at once{rule}. Scores in percent."
    )


def _next(view: View) -> list[str]:
    best = best_trials(view.study.trials, view.search.objectives)
    if not best:
        begun = any(map(view.under_way, view.study.trials))
        what = "go on, with the launcher's words of the first time" if begun else "start it"
        return ["", f"{what}:  semimedref train -m {view.words}"]
    told = f"{summary(view.search, view.study)}. Train it for good, then look at its test scores:"
    return ["", told, *(f"  {view.final(trial)}" for trial in best)]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _md(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
