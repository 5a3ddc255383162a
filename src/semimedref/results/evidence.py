"""What stands behind the numbers of the report page: pictures, configurations, provenance."""

from __future__ import annotations

import base64
import io
import json
import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from semimedref.results import configdiff, render, store
from semimedref.results.figures import FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_POSITIVE
from semimedref.results.sections import scrollable
from semimedref.results.table import Entry, Run, Table

_KINDS = {"median": 0, "worst": 1, "best": 2}
_OPEN = 24  # more configuration keys than this are folded away
_PICTURES_IN_STRIP = 3  # image, truth, prediction
_QUALITY = 88


def gallery(table: Table) -> str:
    """Overlays of the first finished seed of every line: a median, a poor and a good case."""
    parts = []
    for column, entries in table.groups:
        figures = [figure for entry in entries for figure in _figures(entry)]
        if figures:
            heading = ", ".join(render.pretty(value) for value in column)
            parts.append(f"<h3>{escape(heading)}</h3>" if heading else "")
            parts.append(f"<div class=gallery>{''.join(figures)}</div>")
    if not parts:
        return (
            "<p class=soft>These runs wrote no overlays: pictures of real patients stay on the "
            "machine that made them, unless asked for.</p>"
        )
    colors = (
        ("true positive", TRUE_POSITIVE),
        ("false positive", FALSE_POSITIVE),
        ("false negative", FALSE_NEGATIVE),
    )
    legend = "".join(
        f'<li><span class="key square" style="background:rgb{color}"></span>{name}</li>'
        for name, color in colors
    )
    return f"<ul class=legend>{legend}</ul>{''.join(parts)}"


def _figures(entry: Entry) -> list[str]:
    for run in entry.done:
        overlays = [o for o in store.load_overlays(run.folder) if o.path.is_file()]
        if overlays:
            return [_figure(entry.row, run, overlay) for overlay in _choose(overlays)]
    return []


def _choose(overlays: Sequence[store.Overlay]) -> list[store.Overlay]:
    """The first picture of each kind; more would make the page too large to mail."""
    first = {overlay.kind: overlay for overlay in reversed(overlays)}
    return sorted(first.values(), key=lambda overlay: _KINDS.get(overlay.kind, len(_KINDS)))


def _figure(row: str, run: Run, overlay: store.Overlay) -> str:
    score = f"Dice {render.percent(overlay.dice, 1)}"
    alt = f"Image, truth and prediction of {row} for the sentence: {overlay.text} {score}."
    source, width, height = data_uri(overlay.path)
    bare = abs(width / height - _PICTURES_IN_STRIP) < 0.15  # three squares and two seams
    heads = "<div class=heads><b>image</b><b>truth</b><b>prediction</b></div>" if bare else ""
    return (
        f'<figure>{heads}<img loading=lazy width={width} height={height} alt="{escape(alt)}" '
        f'src="{source}"><figcaption><q>{escape(overlay.text)}</q>'
        f"<span class=meta>{escape(row)}, "
        f"{escape(run.seed)} · {escape(overlay.kind)} case · {score} · "
        f"<span class=mono>{escape(overlay.id)}</span></span></figcaption></figure>"
    )


def data_uri(path: Path) -> tuple[str, int, int]:
    """The picture as WebP for inside the page, a fifth of the PNG's size, and its two sides."""
    from PIL import Image, UnidentifiedImageError

    from semimedref.errors import UserError

    buffer = io.BytesIO()
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            mode = "RGBA" if picture.has_transparency_data else "RGB"
            picture.convert(mode).save(buffer, format="WEBP", quality=_QUALITY, method=4)
    except (UnidentifiedImageError, OSError):
        raise UserError(
            f"{path} is not a picture; expected the PNG that the run wrote, delete the "
            f"folder {path.parent.name}/ to leave it out (`semimedref status` shows the cells)"
        ) from None
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/webp;base64,{encoded}", width, height


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
    first = {entry.row: entry.runs[0].cell for entry in reversed(table.entries)}
    reference = table.rows[0]
    lines = []
    for row in table.rows[1:]:
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
    cells = scrollable("Provenance of each cell", inner)
    return f"<div class=small>{cells}</div>{_environments(table)}"


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
