"""The browser of predictions: pictures and numbers of single images, with filters over both.

Without a script everything is listed; with it, one form filters pictures and numbers together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import chain, zip_longest

from semimedref.error_kind import KINDS
from semimedref.results import browser_data, render
from semimedref.results.browser_data import Prediction
from semimedref.results.browser_pictures import LEGEND, Shown, figure, pictures_of
from semimedref.results.sections import scrollable
from semimedref.results.table import Table

# A page that can be mailed: about 30 kB for a picture and 0.2 kB for a line of numbers.
_PICTURES = 100
_LINES = 3_000
_LEAST = 10  # lines of a run, however many runs there are

_NO_PICTURES = (
    "These runs wrote no overlays: pictures of real patients stay on the machine that made them, "
    "unless asked for."
)


def browser(table: Table) -> str:
    """Kinds of errors, filters, pictures and the list of single predictions."""
    runs = browser_data.of_table(table)
    known = {(p.row, p.column, p.seed, p.overlay.id): p for p in chain(*runs) if p.overlay}
    # A run that several lines read shows its pictures in the first.
    firsts = {run.folder: (e, run) for e in reversed(table.entries) for run in reversed(e.done)}
    taken = [pictures_of(entry, run) for entry, run in reversed(firsts.values())]
    shown = [one.described(known) for one in _dealt(taken)]
    if not runs and not shown:
        return f"<p class=soft>{_NO_PICTURES}</p>"
    number = max(_LEAST, _LINES // max(len(runs), 1))
    listed = [one for run in runs for one in browser_data.spread(run, number)]
    both: list[Prediction | Shown] = [*listed, *shown]
    facts = [(one.row, one.column, one.seed, one.position, one.error) for one in both]
    parts = [error_table(runs), _form(table, facts), _gallery(table, shown)]
    parts.append(_list(table, listed, total=sum(map(len, runs))))
    return f"<div class=browser>{''.join(parts)}</div>"


def error_table(runs: Sequence[Sequence[Prediction]]) -> str:
    """How many images of each line of the table show which kind of error, in percent."""
    lines: dict[str, Counter[str]] = {}
    for one in chain.from_iterable(runs):
        place = ", ".join(filter(None, (one.row, one.column)))
        lines.setdefault(place, Counter())[one.counted] += 1
    if not lines:
        return ""
    kinds = [kind for kind in KINDS if any(count[kind] for count in lines.values())]
    head = "".join(f"<th class=n scope=col>{kind}</th>" for kind in kinds)
    body = "".join(
        f"<tr><th scope=row>{escape(place)}</th>"
        + "".join(f"<td class=n>{100 * count[kind] / count.total():.1f}</td>" for kind in kinds)
        + f"<td class=n>{count.total():,}</td></tr>"
        for place, count in lines.items()
    )
    inner = (
        f"<thead><tr><th scope=col>model</th>{head}<th class=n scope=col>images</th></tr></thead>"
        f"<tbody>{body}</tbody>"
    )
    rule = "".join(f"<li><b>{kind}</b>: {escape(KINDS[kind])}</li>" for kind in kinds)
    return (
        "<h3>Kinds of errors, percent of all test images over all finished runs</h3>"
        + f"<div class=small>{scrollable('Kinds of errors', inner, sortable=True)}</div>"
        + "<details><summary>How a kind is decided</summary><p class=note>From the pixels of each "
        "image; the first that fits, from the top. Where a run wrote pictures, these also know the "
        "kind “wrong side”, which is not counted here because not every image has one.</p>"
        f"<ul class=note>{rule}</ul></details>"
    )


def _form(table: Table, facts: Sequence[tuple[str, str, str, str, str]]) -> str:
    rows, columns, seeds, positions, errors = (
        list(dict.fromkeys(v)) for v in zip(*facts, strict=True)
    )
    regions = sorted({name for text in positions for name in text.split("; ") if name})
    over, across = table.over, ", ".join(table.columns) or "column"
    choices = [
        ("row", "method", sorted(rows, key=table.rows.index)),
        ("column", across, columns),
        ("seed", over, seeds),
        ("position", "position", regions),
        ("error", "error", [kind for kind in KINDS if kind in errors]),
    ]
    selects = "".join(_select(*choice) for choice in choices if len(choice[2]) > 1)
    bounds = "".join(
        f"<label>Dice {word}<input type=number name={name} min=0 max=100 step=any "
        f"placeholder={limit} inputmode=decimal></label>"
        for name, word, limit in (("low", "from", 0), ("high", "to", 100))
    )
    return (
        '<h3>Single predictions</h3><form class=filters hidden aria-label="Filter predictions">'
        f"{selects}{bounds}<button type=reset>Show all</button>"
        "<output aria-live=polite></output></form>"
    )


def _select(name: str, label: str, values: Sequence[str]) -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f"<label>{escape(label)}<select name={name}><option value='' selected>all</option>"
        f"{options}</select></label>"
    )


def _gallery(table: Table, shown: Sequence[Shown]) -> str:
    if not shown:
        return f"<p class=soft>{_NO_PICTURES}</p>"
    order = {row: number for number, row in enumerate(table.rows)}
    columns = {column: number for number, (column, _) in enumerate(table.groups)}
    ordered = sorted(shown, key=lambda one: (columns[one.entry.column], order[one.row]))
    return f"{LEGEND}<div class=gallery>{''.join(figure(one) for one in ordered)}</div>"


def _dealt(runs: Sequence[Sequence[Shown]]) -> list[Shown]:
    """The first picture of every run, then the second, until the page is full."""
    turns = chain.from_iterable(zip_longest(*runs))
    return [one for one in turns if one is not None][:_PICTURES]


def _list(table: Table, listed: Sequence[Prediction], *, total: int) -> str:
    if not listed:
        return ""
    across = ", ".join(table.columns) or "column"
    heads = (
        *(("row", "method", ""), ("column", across, ""), ("seed", table.over, "")),
        *(("image", "image", ""), ("patient", "patient", " class=n"), ("dice", "Dice", " class=n")),
        *(("position", "position", ""), ("error", "error", "")),
    )
    head = "".join(
        f"<th{kind} scope=col data-key={key}>{escape(label)}</th>" for key, label, kind in heads
    )
    body = "\n".join(map(_line, listed))
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    some = f"{len(listed):,} of {total:,} predictions, spread evenly over the order of Dice"
    note = (
        f"{some if len(listed) < total else f'All {total:,} predictions'}. Patients are counted "
        "anew, and images of patients are named by their line in per_image.csv of the run."
    )
    lines = scrollable("Predictions", inner, caption=note, sortable=True, kind="predictions")
    summary = "<summary>Predictions in numbers</summary>"
    return f"<details>{summary}<div class=small>{lines}</div></details>"


def _line(one: Prediction) -> str:
    texts = (one.row, one.column, one.seed, one.image)
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    return (
        f"<tr>{cells}<td class=n>{one.patient}</td><td class=n>{render.percent(one.dice, 1)}</td>"
        f"<td>{escape(one.position) or '–'}</td><td>{escape(one.error)}</td></tr>"
    )
