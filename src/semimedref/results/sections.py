"""The numbers of the report page: table, honest numbers, significance."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from semimedref.results import charts, render
from semimedref.results.comparison import Comparison
from semimedref.results.honest import (
    MIN_HEADROOM,
    Headroom,
    claims_text_gain,
    text_gap,
)
from semimedref.results.table import MIN_TEXT_GAP, Entry, Score, Table

_POINTS = f"{100 * MIN_TEXT_GAP:.0f} points"


def results(table: Table) -> str:
    """The table, with every interval drawn on one scale."""
    scores = [entry.scores["dice"] for entry in table.entries if "dice" in entry.scores]
    scale = charts.forest_scale(scores, table.oracles)
    head = "".join(
        f"<th{' class=n' if i > len(table.columns) else ''} scope=col>{escape(label)}</th>"
        for i, label in enumerate(render.header(table))
    )
    axis = (
        f"<th scope=col class=nosort>Dice, percent{charts.forest_axis(scale)}</th>" if scale else ""
    )
    lines = []
    bodies = iter(render.body(table))
    for _, entries in table.groups:
        for number, entry in enumerate(entries):
            group = " class=group" if number == 0 else ""
            lines.append(f"<tr{group}>{_line(table, entry, next(bodies), scale)}</tr>")
    for line in render.overhead(table):
        cells = (f"<td class=n>{escape(text)}</td>" for text in line[len(table.columns) + 1 :])
        name = f"<th scope=row>{escape(line[len(table.columns)])}</th>"
        blank = "<td></td>" * len(table.columns)
        lines.append(f"<tr>{blank}{name}{''.join(cells)}</tr>")
    shown = scale is not None and any(scale.holds(100 * value) for value in table.oracles)
    dashed = " Dashed: the text-blind oracle." if shown else ""
    drawn = f"Dot: mean. Bar: 95 % CI. Ticks: {table.over}s.{dashed}" if scale else ""
    drawn += " A number leads to its runs and commands." if scale else ""
    return scrollable(
        "Results",
        f"<thead><tr>{head}{axis}</tr></thead><tbody>{''.join(lines)}</tbody>",
        caption=" ".join([render.method_note(table), *table.notes]),
        sortable=True,
    ) + (f"<p class=note>{escape(drawn)}</p>" if drawn else "")


def _line(table: Table, entry: Entry, cells: list[str], scale: charts.Scale | None) -> str:
    left = len(table.columns)
    row = table.trained.index(entry.row) if entry.runs else None
    best = render.best_cells(table, entry)
    out = [_column_value(*both) for both in zip(cells[:left], entry.column, strict=True)]
    out.append(f"<th scope=row>{key(row)}{escape(entry.row)}</th>")
    behind = f"#{line_id(table, entry)}" if entry.done else ""
    for i, text in enumerate(cells[left + 1 :], start=left + 1):
        marked = " best" if i in best else ""
        out.append(f'<td class="n{marked}">{_number(text, behind)}</td>')
    if scale:
        score = entry.scores.get("dice", Score(()))
        plot = charts.forest(score, scale, row=row or 0, oracles=table.oracles)
        out.append(f"<td>{plot}</td>")
    return "".join(out)


def line_id(table: Table, entry: Entry) -> str:
    """Where the page says what stands behind a line of the table."""
    return f"line-{table.entries.index(entry)}"


def _column_value(printed: str, value: str) -> str:
    """A value that is printed once for its group; a sorted table shows it in every line."""
    if printed:
        return f"<td>{escape(printed)}</td>"
    return f"<td><span class=again>{escape(render.pretty(value))}</span></td>"


def _number(text: str, behind: str) -> str:
    """A printed number with its deviation in a softer color, as a link to what it is made of."""
    mean, spread, deviation = text.partition(" ± ")
    shown = minus(escape(mean))
    if behind and any(letter.isdigit() for letter in mean):
        shown = f'<a class=from href="{behind}">{shown}</a>'
    return f"{shown} <span class=spread>± {escape(deviation)}</span>" if spread else shown


def honest_numbers(table: Table, room: Headroom | None) -> str:
    """Oracle, headroom, and what each model gains from the text."""
    cards = [_oracle_card(table), _headroom_card(room), _gap_card(table)]
    return f"<div class=cards>{''.join(cards)}</div>{_gap_table(table)}"


def _oracle_card(table: Table) -> str:
    if not table.oracles:
        return card("Text-blind oracle", "–", "These results carry no text-blind oracle.")
    value = " / ".join(render.percent(oracle, 1) for oracle in table.oracles)
    return card(
        "Text-blind oracle",
        f"{value} <small>Dice</small>",
        "What a perfect segmentation of every lesion scores without reading a word. "
        "Only a model that reads the text can be above it.",
    )


def _headroom_card(room: Headroom | None) -> str:
    if room is None:
        return card(
            "Headroom",
            "–",
            "Not measured here: it needs supervised runs with all and with 2 % of the labels, "
            "in this experiment or passed as runs=FOLDER,FOLDER.",
        )
    verdict = "enough to win" if room.value >= MIN_HEADROOM else "too little to win"
    steps = "at equal steps" if room.equal_steps else "but not at equal steps"
    return card(
        "Headroom",
        f"{minus(f'{100 * room.value:+.1f}')} <small>points</small>",
        f"Validation Dice with all labels ({render.percent(room.full, 1)}, "
        f"{_runs(room.runs_full)}) minus with 2 % ({render.percent(room.few, 1)}, "
        f"{_runs(room.runs_few)}), supervised, {steps}: {verdict} "
        f"({100 * MIN_HEADROOM:.0f} points asked for).",
    )


def _gap_card(table: Table) -> str:
    gaps = [gap for gap in map(text_gap, table.entries) if gap is not None]
    if not gaps:
        return card("Text gap", "–", "No finished model has a text gap yet.")
    ends = dict.fromkeys(minus(f"{100 * gap:.1f}") for gap in (min(gaps), max(gaps)))
    small = sum(not claims_text_gain(gap) for gap in gaps)
    verdict = (
        f"No text gain is claimed for {small} of {len(gaps)} models (gap under {_POINTS})."
        if small
        else f"Every model is above the {_POINTS} from which a text gain is claimed."
    )
    return card(
        "Text gap",
        f"{' to '.join(ends)} <small>points</small>",
        f"Dice with true texts minus Dice with texts shuffled between images. {verdict}",
    )


def _gap_table(table: Table) -> str:
    lines = []
    for entry in table.entries:
        gap = text_gap(entry)
        if gap is None:
            continue
        dice = entry.scores["dice"].mean if "dice" in entry.scores else None
        over = dice - max(table.oracles) if dice is not None and table.oracles else None
        claim = claims_text_gain(gap)
        verdict = "text gain" if claim else "no text gain is claimed"
        margin = "–" if over is None else minus(f"{100 * over:+.1f}")
        lines.append(
            f"<tr><th scope=row>{escape(render.place(entry.row, entry.column))}</th>"
            f"<td class=n>{margin}</td><td class=n>{minus(f'{100 * gap:+.1f}')}</td>"
            f'<td><span class="badge {"yes" if claim else "no"}">{verdict}</span></td></tr>'
        )
    if not lines:
        return ""
    head = (
        "<thead><tr><th scope=col>model</th><th class=n scope=col>Dice above the oracle</th>"
        "<th class=n scope=col>text gap</th><th scope=col>verdict</th></tr></thead>"
    )
    inner = f"{head}<tbody>{''.join(lines)}</tbody>"
    return scrollable("Text gap of each model", inner, sortable=True)


def significance(table: Table, comparisons: Sequence[Comparison]) -> str:
    """Each row against the first row of its column; in a ladder also against the one before."""
    if not comparisons:
        return "<p class=soft>No two rows that are to be compared share a finished seed yet.</p>"
    lines = "".join(_comparison(comparison) for comparison in comparisons)
    head = "".join(
        f"<th{kind} scope=col>{escape(label)}</th>"
        for label, kind in (
            (", ".join(table.columns), ""),
            ("comparison", ""),
            ("Dice difference", " class=n"),
            ("95 % CI", " class=n"),
            (f"95 % CI, {table.over}s too", " class=n"),
            ("p", " class=n"),
            ("p, Holm", " class=n"),
            (f"{table.over}s", ""),
        )
    )
    first, often = comparisons[0], table.resampling
    note = (
        f"{first.images:,} test images of {first.patients:,} patients. Whole patients are swapped "
        f"(randomization, two-sided, {often.randomization:,} times) and drawn (bootstrap, "
        f"{often.bootstrap:,} times); differences are of means over the {table.over}s that both "
        "rows share; Holm's correction within a column. "
        "Intervals are not adjusted. The test is about these trained models on other patients; "
        f"what another {table.over} would give is shown by the spread in the table."
    )
    body = f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return scrollable("Significance", body, caption=note, sortable=True)


def _comparison(comparison: Comparison) -> str:
    test = comparison.test
    column = ", ".join(render.pretty(value) for value in comparison.column)
    ci = f"[{100 * test.ci_low:+.2f}, {100 * test.ci_high:+.2f}]"
    return (
        f"<tr><td>{escape(column)}</td>"
        f"<th scope=row>{escape(comparison.row)} − {escape(comparison.reference)}</th>"
        f"<td class=n>{minus(f'{100 * test.difference:+.2f}')}</td><td class=n>{minus(ci)}</td>"
        f"<td class=n>{_wide(test.hierarchical)}</td>"
        f"<td class=n>{_p(test.p)}</td><td class=n>{_p(comparison.p_holm)}</td>"
        f"<td>{escape(', '.join(comparison.seeds))}</td></tr>"
    )


def scrollable(
    label: str, inner: str, *, caption: str = "", sortable: bool = False, kind: str = ""
) -> str:
    """A table that scrolls by itself on a narrow screen, by touch and by keyboard.

    Args:
        label: what the table is, for those who cannot see it.
        inner: head and body, HTML.
        caption: text above it.
        sortable: whether a click on a heading may sort it.
        kind: a class of its own.
    """
    # The caption stays outside, so that it wraps to the screen and not to the table.
    head = f"<p class=note>{escape(caption)}</p>" if caption else ""
    classes = " ".join(filter(None, ("sortable" if sortable else "", kind)))
    marked = f' class="{classes}"' if classes else ""
    return (
        f'{head}<div class=scroll role=region tabindex=0 aria-label="{escape(label)}">'
        f"<table{marked}>{inner}</table></div>"
    )


def card(title: str, value: str, text: str) -> str:
    """One number with its name and what it means; ``value`` is HTML."""
    head = f"<h3>{escape(title)}</h3><p class=big>{value}</p>"
    return f"<div class=card>{head}<p>{escape(text)}</p></div>"


def _wide(interval: tuple[float, float] | None) -> str:
    """The interval over seeds and patients; there is none for one seed."""
    if interval is None:
        return "–"
    return minus(f"[{100 * interval[0]:+.2f}, {100 * interval[1]:+.2f}]")


def key(row: int | None) -> str:
    """The colored dot of a table row; a row without runs has none."""
    if row is None:
        return ""
    return f'<span class=key style="background:{charts.color(row)}"></span>'


def minus(number: str) -> str:
    """A printed number with a true minus sign."""
    return number.replace("-", "−")


def _p(p: float) -> str:
    return escape(render.format_p(p).removeprefix("p = ").removeprefix("p "))


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
