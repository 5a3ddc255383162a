"""A table in LaTeX (booktabs), to paste into a paper: rows down, columns across, the paper below.

Dice and mIoU of a place share a cell, as the paper prints them. The values that the paper reports
stand in italics in a line of their own, below ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from semimedref.results import columns, notes, resources, wording
from semimedref.results.columns import Column
from semimedref.results.table import Entry, Table

_PACKAGES = r"\usepackage{booktabs} \usepackage{graphicx}"
_PAIR = ("dice", "miou")  # shown in one cell
_NARROW = 2  # more columns than these go across the page
_SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # if too wide
_SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "−": "$-$", "–": "--", "°": r"$^{\circ}$", "Δ": r"$\Delta$", "·": r"$\cdot$",
    "²": r"$^{2}$", "…": r"\ldots{}", "ρ": r"$\rho$", "λ": r"$\lambda$", "δ": r"$\delta$",
    "τ": r"$\tau$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "<": r"$<$", ">": r"$>$",
    "|": r"\textbar{}", '"': "''",
}  # fmt: skip


@dataclass(frozen=True)
class Slot:
    """One LaTeX column: a place of the table, and one metric or the pair of Dice and mIoU."""

    place: tuple[str, ...]
    metrics: tuple[str, ...]


_LISTED = 12  # unfinished entries that a caption names


def latex(table: Table) -> str:
    """The whole table with caption and label; its first line names the package that it needs."""
    slots = _slots(table)
    kind = "table*" if len(slots) > _NARROW else "table"
    lines = [
        f"% semimedref table experiment={table.name}        needs {_PACKAGES}",
        rf"\begin{{{kind}}}[t]",
        r"\centering",
        r"\small",
        _SHRINK,
        rf"\begin{{tabular}}{{@{{}}l{'c' * len(slots)}@{{}}}}",
        r"\toprule",
        *_head(table, slots),
        r"\midrule",
    ]
    for row in table.rows:
        lines += _row(table, row, slots)
    lines += [r"\bottomrule", r"\end{tabular}}", rf"\caption{{{_caption(table)}}}"]
    return "\n".join([*lines, rf"\label{{tab:{table.name}}}", rf"\end{{{kind}}}"]) + "\n"


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands; a sign that it has no command for becomes a ``?``."""
    out = "".join(_SIGNS.get(sign, sign) for sign in text)
    return out.encode("ascii", "replace").decode()


def _slots(table: Table) -> list[Slot]:
    pair = tuple(m for m in _PAIR if m in table.metrics)
    groups = [pair] if len(pair) == len(_PAIR) else [(m,) for m in pair]
    groups += [(m,) for m in table.metrics if m not in _PAIR] + [(name,) for name in table.cost]
    return [Slot(place, metrics) for place, _ in table.groups for metrics in groups]


def _head(table: Table, slots: Sequence[Slot]) -> list[str]:
    """A line for each column of the table, spanning what belongs together, and one of metrics."""
    lines = []
    for level in range(len(table.columns)):
        spans: list[tuple[tuple[str, ...], int]] = []
        for slot in slots:
            key = slot.place[: level + 1]
            if spans and spans[-1][0] == key:
                spans[-1] = key, spans[-1][1] + 1
            else:
                spans.append((key, 1))
        cells = (
            rf"\multicolumn{{{n}}}{{c}}{{{escape(wording.option(key[-1]))}}}" for key, n in spans
        )
        lines.append(f" & {' & '.join(cells)} \\\\")
        lines += _rules([n for _, n in spans])
    names = ("/".join(escape(wording.metric(m)) for m in slot.metrics) for slot in slots)
    return [*lines, f"Method & {' & '.join(names)} \\\\"]


def _rules(widths: Sequence[int]) -> list[str]:
    """A short rule below each heading that spans several columns."""
    if len(widths) < 2 or max(widths) == 1:
        return []
    rules, start = "", 2
    for width in widths:
        rules += rf"\cmidrule(lr){{{start}-{start + width - 1}}}"
        start += width
    return [rules]


def _row(table: Table, row: str, slots: Sequence[Slot]) -> list[str]:
    entries = {entry.column: entry for entry in table.entries if entry.row == row}
    built = any(entry.runs for entry in entries.values())
    told = any(entry.reported for entry in entries.values())
    lines = []
    if built:
        cells = [_cell(table, entries.get(slot.place), slot, "score") for slot in slots]
        lines.append(f"{escape(row)} & {' & '.join(cells)} \\\\")
    if told:
        cells = [_cell(table, entries.get(slot.place), slot, "paper") for slot in slots]
        name = r"\quad \textit{paper}" if built else f"{escape(row)}$^{{\\ast}}$"
        lines.append(f"{name} & {' & '.join(cells)} \\\\")
    return lines


def _cell(table: Table, entry: Entry | None, slot: Slot, kind: columns.Kind) -> str:
    if entry is None:
        return "--"
    shown = columns.columns(table)
    best = {shown[number] for number in columns.best(table, entry)}
    parts = []
    for metric in slot.metrics:
        column = Column(_cost_kind(kind) if metric in table.cost else kind, metric)
        text = escape(_short(column, entry))
        text = rf"\textit{{{text}}}" if kind == "paper" and text != "--" else text
        parts.append(rf"\textbf{{{text}}}" if column in best else text)
    return "--" if set(parts) == {"--"} else "/".join(parts)


def _cost_kind(kind: columns.Kind) -> columns.Kind:
    return "paper_cost" if kind == "paper" else "cost"


def _short(column: Column, entry: Entry) -> str:
    """The cell's text without spaces around the deviation, which would widen the table."""
    if column.kind == "score" and column.metric not in entry.scores:
        return "–"
    text = column.text(entry) if entry.runs or column.kind != "score" else "–"
    return re.sub(r" ± ", "±", text)


def _caption(table: Table) -> str:
    """Title, how the numbers were made, and what the marks mean."""
    parts = [f"{table.title}. In percent: mean ± sample standard deviation over {table.over}s."]
    waiting = [entry for entry in table.entries if not entry.complete]
    if len(waiting) > _LISTED:  # a longer caption is more than TeX can hold in one line
        done = sum(len(entry.done) for entry in waiting)
        runs = sum(len(entry.runs) for entry in waiting)
        parts.append(f"{len(waiting)} entries wait for runs: {done} of {runs} finished.")
        waiting = []
    for entry in waiting:
        where = wording.place(entry.row, entry.column)
        parts.append(f"{where}: {len(entry.done)} of {len(entry.runs)} {table.over}s finished.")
    parts += [*resources.notes(table.cost, table.entries), *table.remarks]
    parts += notes.chosen_by_test(table.entries)
    if any(entry.reported for entry in table.entries):
        parts.append("Italics: reported by the authors of Semi-MedRef.")
    text = escape(" ".join(parts))
    if any(entry.reported and not entry.runs for entry in table.entries):
        text += r" $^{\ast}$Not reproduced here."
    values = [value for entry in table.entries for value in entry.reported.values()]
    if any(value.family == "other" for value in values):
        text += r" $^{\circ}$Another metric family: not compared."
    return text
