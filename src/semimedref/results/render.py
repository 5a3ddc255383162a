"""Print a table: aligned text for a terminal, Markdown, and long-form CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from semimedref.results import cost
from semimedref.results.comparison import Comparison
from semimedref.results.honest import claims_text_gain, text_gap
from semimedref.results.table import CI_REPLICATES, MIN_TEXT_GAP, Entry, Score, Table

_LABELS = {
    "dice": "Dice",
    "miou": "mIoU",
    "dice_per_image": "Dice per image",
    "dice_shuffled": "Dice, shuffled text",
    "text_gap": "Text gap",
    "map": "mAP",
    "auroc": "AUROC",
    "f1": "F1",
    "params": "Params",
    "gflops": "GFLOPs",
}
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
    commands = unfinished(table)
    if commands:
        out += ["", "Not finished:", "", "```text", *commands, "```"]
    return "\n".join(out) + "\n"


def csv_text(table: Table) -> str:
    """Long form, one line per row, column and metric; scores are fractions, empty if unknown."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    fields = ["metric", "mean", "std", "n", "n_expected", "ci_low", "ci_high", "seeds"]
    writer.writerow(["row", *table.columns, *fields])
    for entry in table.entries:
        seeds = " ".join(run.seed for run in entry.done)
        for metric in table.metrics:
            score = entry.scores[metric]
            numbers = [score.mean, score.std, score.n, len(entry.runs), *(score.ci or ("", ""))]
            cells = ["" if value is None else value for value in numbers]
            writer.writerow([entry.row, *entry.column, metric, *cells, seeds])
        for name in table.cost:
            writer.writerow([entry.row, *entry.column, name, entry.cost[name], *[""] * 6])
    added = table.chosen.cost if table.chosen else {}
    for label, part in cost.OVERHEAD if added else ():
        for name in table.cost:
            value = added[f"{name}{part}"]
            writer.writerow([label, *[""] * len(table.columns), name, value, *[""] * 6])
    return buffer.getvalue()


def header(table: Table) -> list[str]:
    """Column headings of the printed table."""
    head = [*table.columns, "method"]
    for metric in table.metrics:
        head.append(_LABELS.get(metric, metric))
        head += ["95 % CI"] if metric == "dice" else []
    head += [_LABELS.get(name, name) for name in table.cost]
    return [*head, f"{table.over}s"]


def body(table: Table) -> list[list[str]]:
    """Printed cells of every line; a column value is printed once for its group."""
    lines = []
    for _, entries in table.groups:
        for number, entry in enumerate(entries):
            values = [pretty(value) if number == 0 else "" for value in entry.column]
            line = [*values, entry.row]
            for metric in table.metrics:
                score = entry.scores[metric]
                line.append(format_score(score))
                line += [format_ci(score)] if metric == "dice" else []
            line += [cost.exact(name, entry.cost[name]) for name in table.cost]
            lines.append([*line, f"{len(entry.done)} of {len(entry.runs)}"])
    return lines


def overhead(table: Table) -> list[list[str]]:
    """What the chosen row adds to a network without it: its head, and all of it."""
    chosen = table.chosen
    if chosen is None:
        return []
    width = len(header(table)) - len(table.columns) - len(table.cost) - 2
    return [
        [*[""] * len(table.columns), label, *[""] * width]
        + [cost.added(name, chosen.cost[f"{name}{part}"]) for name in table.cost]
        + [""]
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
    return lines


def comparison_sentence(comparison: Comparison) -> str:
    """One comparison in words."""
    test = comparison.test
    holm = "" if comparison.p_holm == test.p else f" ({format_p(comparison.p_holm)} after Holm)"
    return (
        f"{place(comparison.row, comparison.column)}, minus {comparison.reference}: "
        f"{100 * test.difference:+.2f} points [{100 * test.ci_low:+.2f}, {100 * test.ci_high:+.2f}]"
        f", paired by patient {format_p(test.p)}{holm}; {', '.join(comparison.seeds)}, "
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
        f"{how}; 95 % CI of Dice: percentile bootstrap over {drawn}, {CI_REPLICATES:,} replicates."
    )


def unfinished(table: Table) -> list[str]:
    """Cells without a result, each with the command that trains it."""
    waiting = [(entry, run) for entry in table.entries for run in entry.runs if not run.result]
    lines = [
        f"{run.state}: {place(entry.row, entry.column)}, {run.seed}:  {run.command}"
        for entry, run in waiting[:_LISTED]
    ]
    if len(waiting) > _LISTED:
        rest = len(waiting) - _LISTED
        lines.append(f"… and {rest} more:  semimedref train -m experiment={table.name}")
    return lines


def place(row: str, column: Sequence[str]) -> str:
    """A row and its column values in words: ``Baseline, 2 %``."""
    return ", ".join([row, *(pretty(value) for value in column)])


def pretty(option: str) -> str:
    """An option name for the eye: ``2pct`` is printed as ``2 %``."""
    return re.sub(r"^(\d+(?:[._]\d+)?)pct$", lambda m: m[1].replace("_", ".") + " %", option)


def percent(value: float | None, digits: int = 2) -> str:
    """A fraction as percent, or a dash."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def format_score(score: Score) -> str:
    """Mean ± deviation in percent; no ± for one seed."""
    spread = "" if score.std is None else f" ± {percent(score.std)}"
    return percent(score.mean) + spread


def format_ci(score: Score) -> str:
    """The interval in percent."""
    return f"[{percent(score.ci[0], 1)}, {percent(score.ci[1], 1)}]" if score.ci else "–"


def format_p(p: float) -> str:
    """A p value, never printed as zero."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def best_cells(table: Table, entry: Entry) -> set[int]:
    """Positions of the cells that are best in a column whose rows are all complete."""
    rivals = [other for other in table.entries if other.column == entry.column]
    if len(rivals) < 2 or not all(other.complete for other in rivals):
        return set()
    best, position = set(), len(table.columns) + 1
    for metric in table.metrics:
        means = [other.scores[metric].mean for other in rivals]
        mean = entry.scores[metric].mean
        # A larger text gap is not a better model, so it is never marked.
        if metric != "text_gap" and mean is not None and mean == max(m or 0.0 for m in means):
            best.add(position)
        position += 2 if metric == "dice" else 1
    return best


def _styled(text: str, code: str, style: bool) -> str:
    return f"{code}{text}{_RESET}" if style and text.strip() else text


def _md_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_<>|])", r"\\\1", text.replace("\n", " "))
