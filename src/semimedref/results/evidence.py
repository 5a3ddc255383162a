"""What stands behind the numbers of the report page: pictures, configurations, provenance."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from semimedref.results import configdiff, reading, render
from semimedref.results.pictures import data_uri
from semimedref.results.runs import Run
from semimedref.results.sections import line_id, scrollable
from semimedref.results.table import Entry, Table

_OPEN = 24  # more configuration keys or runs than this are folded away


def analyses(table: Table) -> str:
    """The figures that ``semimedref analyze`` left in the run folders; empty if there are none."""
    figures = [
        _analysis(entry.row, run, path)
        for entry in table.entries
        for run in entry.done
        for path in sorted((run.folder / "analysis").glob("*.png"))
    ]
    return f"<div class=gallery>{''.join(figures)}</div>" if figures else ""


def _analysis(row: str, run: Run, path: Path) -> str:
    source, width, height = data_uri(path)
    what = escape(f"{path.stem.replace('_', ', ')}: {row}, {run.seed}")
    return (
        f'<figure><img loading=lazy width={width} height={height} alt="{what}" src="{source}">'
        f"<figcaption>{what}</figcaption></figure>"
    )


def row_differences(table: Table) -> str:
    """Which configuration keys each row changes against the first row of the table."""
    first = {entry.row: entry.runs[0].cell for entry in reversed(table.entries) if entry.runs}
    reference, *others = [row for row in table.rows if row in first] or [""]
    lines = []
    for row in others:
        found = configdiff.differences(first[reference].config, first[row].config)
        for number, difference in enumerate(found):
            name = f"<th scope=row>{escape(row) if number == 0 else ''}</th>"
            cells = "".join(
                f"<td class=wrap><code>{escape(text)}</code></td>"
                for text in (difference.a, difference.b)
            )
            group = " class=group" if number == 0 else ""
            key = f"<td><code>{escape(difference.key)}</code></td>"
            lines.append(f"<tr{group}>{name}{key}{cells}</tr>")
    if not lines:
        return "<p class=soft>The rows have one configuration.</p>"
    head = "".join(
        f"<th scope=col>{escape(label)}</th>" for label in ("row", "key", reference, "here")
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    shown = " open" if len(lines) <= _OPEN else ""
    keys = scrollable("Configuration keys", inner)
    return f"<details{shown}><summary>Configuration keys</summary>{keys}</details>"


def sources(table: Table) -> str:
    """From each line of the table to its runs: their scores, folders and commands."""
    heads = [("line of the table", ""), (table.over, "")]
    heads += [(metric, " class=n") for metric in table.metrics]  # as result.json calls them
    heads += [("file", ""), ("command", "")]
    head = "".join(f"<th{kind} scope=col>{escape(label)}</th>" for label, kind in heads)
    body = "".join(
        _source(table, entry, run, first=number == 0)
        for entry in table.entries
        for number, run in enumerate(entry.runs)
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    runs = scrollable("Runs behind each number", inner, sortable=True)
    shown = " open" if len(table.runs) <= _OPEN else ""
    note = (
        f"A number of the table is the mean over the {table.over}s of its line; each comes from a "
        "file of a run folder, which the command makes again."
    )
    return (
        f"<p class=note>{note}</p><details{shown}><summary>Runs behind each number</summary>"
        f"<div class=small>{runs}</div></details>"
    )


def _source(table: Table, entry: Entry, run: Run, *, first: bool) -> str:
    name = escape(render.place(entry.row, entry.column))
    marked = f" class=group id={line_id(table, entry)}" if first else ""
    label = name if first else f"<span class=again>{name}</span>"
    values = (_value(entry, run, metric) for metric in table.metrics)
    scores = "".join(f"<td class=n>{render.percent(value)}</td>" for value in values)
    axis = reading.axis_of(run.cell)
    file = f"eval/{axis.name('test')}.json" if axis else "result.json"
    path = f"{table.run_root.name}/{run.folder.name}/{file}"
    return (
        f"<tr{marked}><th scope=row>{label}</th><td>{escape(run.seed)}</td>{scores}"
        f'<td class="wrap long"><code>{escape(path)}</code></td>'
        f'<td class="wrap long"><code>{escape(run.command)}</code></td></tr>'
    )


def _value(entry: Entry, run: Run, metric: str) -> float | None:
    """The value of one run in a score, if every finished run of the line has one."""
    values = entry.scores[metric].values
    if run not in entry.done or len(values) != len(entry.done):
        return None
    return values[entry.done.index(run)]


def provenance(table: Table) -> str:
    """Every cell: state, signature, commit, time, memory, weights, precision."""
    labels = (
        *("cell", "state", "signature", "commit", "wall time", "peak memory", "weights (trained)"),
        *("best epoch", "device, precision"),
    )
    head = "".join(f"<th scope=col>{label}</th>" for label in labels)
    lines = []
    for entry in table.entries:
        for run in entry.runs:
            name = escape(", ".join([render.place(entry.row, entry.column), run.seed]))
            badge = f'<span class="badge {run.state}">{run.state}</span>'
            *facts, precision = _facts(run)
            cells = "".join(f"<td>{fact}</td>" for fact in facts)
            cells += f"<td class=wrap>{precision}</td>"
            lines.append(f"<tr><th scope=row>{name}</th><td>{badge}</td>{cells}</tr>")
    inner = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    cells = scrollable("Provenance of each cell", inner, sortable=True)
    return f"{sources(table)}<div class=small>{cells}</div>{_environments(table)}"


def _facts(run: Run) -> list[str]:
    signature = f"<code>{escape(run.cell.signature)}</code>"
    if run.result is None:
        return [signature, *["–"] * 6]
    result = run.result
    weights = result.get("parameters") or {"total": 0, "trainable": 0}
    best = result.get("best")
    return [
        signature,
        f"<code>{escape(str(result.get('git_commit') or 'none')[:10])}</code>",
        duration(result.get("wall_seconds", 0)),
        f"{result.get('peak_memory_bytes', 0) / 2**20:,.0f} MiB",
        f"{weights['total'] / 1e6:.2f} M ({weights['trainable'] / 1e6:.2f} M)",
        f"{best['epoch']} of {result.get('epochs', '?')}" if best else "–",
        escape(", ".join([str(result.get("device", "?")), *_flags(result.get("precision"))])),
    ]


def _flags(precision: object) -> list[str]:
    if not isinstance(precision, dict):
        return [str(precision)] if precision else []
    return [f"{name} {json.dumps(value).strip(chr(34))}" for name, value in precision.items()]


def _environments(table: Table) -> str:
    """The distinct environments of the finished runs, folded away."""
    found = {
        json.dumps(
            {"version": run.result.get("version"), **(run.result.get("environment") or {})},
            indent=2,
            ensure_ascii=False,
            default=str,
        )
        for run in table.runs
        if run.result is not None
    }
    return "".join(
        f"<details><summary>Environment{f' {i}' if len(found) > 1 else ''}</summary>"
        f"<pre>{escape(text)}</pre></details>"
        for i, text in enumerate(sorted(found), start=1)
    )


def commands(table: Table, overrides: Sequence[str]) -> str:
    """How to make this page again, and how to train what is missing."""
    words = shlex.join(overrides or [f"experiment={table.name}"])
    lines = [
        f"semimedref train -m {words}    # trains what is missing, resumes what was stopped",
        f"semimedref table {words}",
        f"semimedref report {words}",
    ]
    out = f"<pre>{escape(chr(10).join(lines))}</pre>"
    waiting = render.unfinished(table)
    if waiting:
        text = escape("\n".join(waiting))
        out += f"<h3>Not finished</h3><pre>{text}</pre>"
    singles = "\n".join(dict.fromkeys(run.command for run in table.runs))
    return out + (
        f"<details><summary>One command per cell</summary><pre>{escape(singles)}</pre></details>"
    )


def duration(seconds: float) -> str:
    """Seconds for the eye: ``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
