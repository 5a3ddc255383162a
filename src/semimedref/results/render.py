"""Print a table: aligned text for a terminal, Markdown, and long-form CSV."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence

from semimedref.results import columns, cost, variance
from semimedref.results.comparison import Comparison
from semimedref.results.honest import claims_text_gain, text_gap
from semimedref.results.table import MIN_TEXT_GAP, Entry, Table
from semimedref.results.wording import interval as format_ci
from semimedref.results.wording import option as pretty
from semimedref.results.wording import p_value as format_p
from semimedref.results.wording import percent, place
from semimedref.results.wording import score as format_score

__all__ = ["format_ci", "format_p", "format_score", "percent", "place", "pretty"]

_LISTED = 8  # unfinished cells that are listed one by one
_BOLD, _DIM, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def terminal(table: Table, comparisons: Sequence[Comparison], *, style: bool) -> str:
    """Aligned plain text; bold headings and best values only when ``style`` is set."""
    lines = [header(table), *body(table), *overhead(table)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    left = len(table.columns) + 1
    best = [set(), *(best_cells(table, entry) for entry in table.entries)]
    best += [set() for _ in overhead(table)]
    out = [_styled(table.title, _BOLD, style), ""]
    for number, line in enumerate(lines):
        cells = [
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        bold = set(range(len(cells))) if number == 0 else best[number]
        out.append("  ".join(_styled(c, _BOLD, style and i in bold) for i, c in enumerate(cells)))
        if number == 0:
            out.append(_styled("─" * (sum(widths) + 2 * (len(widths) - 1)), _DIM, style))
    facts = [*findings(table, comparisons), *unfinished(table)]
    notes = ["", method_note(table), *table.notes, *facts]
    return "\n".join([line.rstrip() for line in out] + notes) + "\n"


def markdown(table: Table, comparisons: Sequence[Comparison]) -> str:
    """A Markdown table with its notes; the best value of a complete column is bold."""
    left = len(table.columns) + 1
    head = header(table)
    rule = [":--"] * left + ["--:"] * (len(head) - left)
    out = [f"# {_escape(table.title)}", "", _md_row(head), _md_row(rule)]
    for entry, line in zip(table.entries, body(table), strict=True):
        bold = best_cells(table, entry)
        cells = [_escape(text) for text in line]
        out.append(_md_row([f"**{text}**" if i in bold else text for i, text in enumerate(cells)]))
    out += [_md_row([_escape(text) for text in line]) for line in overhead(table)]
    for note in (method_note(table), *table.notes):
        out += ["", _escape(note)]
    out += [""]
    out += [f"- {_escape(line)}" for line in findings(table, comparisons)]
    commands = unfinished(table, listed=None)
    if commands:
        out += ["", "Not finished:", "", "```text", *commands, "```"]
    return "\n".join(out) + "\n"


def csv_text(table: Table) -> str:
    """Long form, one line per row, column and metric; scores are fractions, empty if unknown."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    fields = ["metric", "mean", "std", "n", "n_expected", "ci_low", "ci_high", "seeds"]
    paper = ["paper", "paper_std", "paper_family", "difference", "seed_noise"]
    writer.writerow(["row", *table.columns, *fields, *paper])
    for entry in table.entries:
        for metric in table.metrics:
            writer.writerow([entry.row, *entry.column, metric, *_numbers(entry, metric)])
        for name in table.cost:
            known = entry.reported.get(name)
            told = [known.value, "", "", "", ""] if known else [""] * len(paper)
            counted = entry.cost.get(name, "")
            writer.writerow([entry.row, *entry.column, name, counted, *[""] * 6, *told])
    added = table.chosen.cost if table.chosen else {}
    for label, part in cost.OVERHEAD if added else ():
        for name in table.counted:
            value = added[f"{name}{part}"]
            blank = [""] * (6 + len(paper))
            writer.writerow([label, *[""] * len(table.columns), name, value, *blank])
    return buffer.getvalue()


def _numbers(entry: Entry, metric: str) -> list[object]:
    """Ours and the paper's in one line of the CSV; the paper's values as fractions, too."""
    score, known, gap = entry.scores[metric], entry.reported.get(metric), entry.gaps.get(metric)
    ours = [score.mean, score.std, score.n, len(entry.runs), *(score.ci or (None, None))]
    told = [
        known and round(known.value / 100, 6),
        known and known.std is not None and round(known.std / 100, 6),
        known and known.family,
        gap and gap.points / 100,
        gap and gap.verdict,
    ]
    seeds = " ".join(run.seed for run in entry.done)
    return ["" if value is None or value is False else value for value in (*ours, seeds, *told)]


def header(table: Table) -> list[str]:
    """Column headings of the printed table."""
    return [*table.columns, "method", *(c.heading(table) for c in columns.columns(table))]


def body(table: Table) -> list[list[str]]:
    """Printed cells of every line; a column value is printed once for its group."""
    shown = columns.columns(table)
    lines = []
    for _, entries in table.groups:
        for number, entry in enumerate(entries):
            values = [pretty(value) if number == 0 else "" for value in entry.column]
            lines.append([*values, entry.row, *(column.text(entry) for column in shown)])
    return lines


def overhead(table: Table) -> list[list[str]]:
    """What the chosen row adds to a network without it: its head, and all of it."""
    chosen = table.chosen
    if chosen is None:
        return []
    return [
        [*[""] * len(table.columns), label]
        + [
            cost.added(c.metric, chosen.cost[f"{c.metric}{part}"])
            if c.kind == "cost" and c.metric in table.counted
            else ""
            for c in columns.columns(table)
        ]
        for label, part in cost.OVERHEAD
    ]


def findings(table: Table, comparisons: Sequence[Comparison]) -> list[str]:
    """What the numbers say, one sentence each: oracle, comparisons, missing text gains."""
    lines = [
        f"Text-blind oracle (every lesion perfectly, no text read): Dice {percent(value)}."
        for value in table.oracles
    ]
    lines += [comparison_sentence(comparison) for comparison in comparisons]
    for entry in table.entries:
        gap = text_gap(entry)
        if gap is not None and not claims_text_gain(gap):
            lines.append(
                f"{place(entry.row, entry.column)}: text gap {percent(gap)} is under "
                f"{100 * MIN_TEXT_GAP:.0f} points, no text gain is claimed."
            )
    return lines + [_spread_sentence(table, s) for s in _spreads(table)]


def _spreads(table: Table) -> list[variance.Spread]:
    return variance.spreads(table) if table.variance else []


def _spread_sentence(table: Table, spread: variance.Spread) -> str:
    """Where the spread of a row comes from."""
    return (
        f"{spread.row}: standard deviation of Dice between {spread.n_columns} values of "
        f"{table.variance} {percent(spread.columns)}, between {spread.n_seeds} {table.over}s "
        f"{percent(spread.seeds)}, rest {percent(spread.rest)} points (variance components)."
    )


def comparison_sentence(comparison: Comparison) -> str:
    """One comparison in words."""
    test = comparison.test
    wide = ""
    if test.hierarchical:
        low, high = test.hierarchical
        wide = f", with other seeds, too [{100 * low:+.2f}, {100 * high:+.2f}]"
    holm = "" if comparison.p_holm == test.p else f" ({format_p(comparison.p_holm)} after Holm)"
    return (
        f"{place(comparison.row, comparison.column)}, minus {comparison.reference}: "
        f"{100 * test.difference:+.2f} points [{100 * test.ci_low:+.2f}, {100 * test.ci_high:+.2f}]"
        f"{wide}, paired by patient {format_p(test.p)}{holm}; {', '.join(comparison.seeds)}, "
        f"{comparison.images} images of {comparison.patients} patients."
    )


def method_note(table: Table) -> str:
    """How mean, deviation and interval were computed."""
    how = f"In percent: mean ± sample standard deviation over {table.over}s"
    if "dice" not in table.metrics:
        return f"{how}."
    several = any(len(entry.done) > 1 for entry in table.entries)
    drawn = f"{table.over}s and patients" if several else "patients"
    return (
        f"{how}; 95 % CI of Dice: percentile bootstrap over {drawn}, "
        f"{table.resampling.bootstrap:,} replicates."
    )


def unfinished(table: Table, *, listed: int | None = _LISTED) -> list[str]:
    """Cells without a result and evaluations not made, each with its command; at most so many."""
    waiting = [(entry, run) for entry in table.entries for run in entry.runs if not run.result]
    lines = [
        f"{run.state}: {place(entry.row, entry.column)}, {run.seed}:  {run.command}"
        for entry, run in waiting[:listed]
    ]
    rest = len(waiting) - len(lines)
    if rest:
        words = shlex.join(waiting[0][1].experiment)
        lines.append(f"… and {rest} more:  semimedref train -m {words}")
    lines += [f"not asked yet:  {command}" for command in table.remedies[:listed]]
    rest = len(table.remedies) - len(table.remedies[:listed])
    return lines + ([f"… and {rest} more evaluations or analyses"] if rest else [])


def best_cells(table: Table, entry: Entry) -> set[int]:
    """Positions of the cells that are best in a column whose rows may be compared."""
    left = len(table.columns) + 1
    return {left + number for number in columns.best(table, entry)}


def _styled(text: str, code: str, style: bool) -> str:
    return f"{code}{text}{_RESET}" if style and text.strip() else text


def _md_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_<>|])", r"\\\1", text.replace("\n", " "))
