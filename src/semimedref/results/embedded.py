"""The drawn figures of an experiment, inside its page: drawing, caption, table of the numbers."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from semimedref.errors import UserError
from semimedref.results.pictures import svg_uri
from semimedref.results.sections import minus, scrollable


def figures(run_root: Path, experiment: str) -> str:
    """All ``<run_root>/tables/<experiment>-*.svg`` that have their ``.json`` beside them."""
    paths = sorted((run_root / "tables").glob(f"{experiment}-*.svg"))
    return "".join(_figure(path) for path in paths if path.with_suffix(".json").is_file())


def _figure(path: Path) -> str:
    about = _about(path.with_suffix(".json"))
    title, caption = str(about.get("title", path.stem)), str(about.get("caption", ""))
    return (
        f'<figure class=drawing><img loading=lazy alt="{escape(f"{title}. {caption}")}" '
        f'src="{svg_uri(path)}"><figcaption><b>{escape(title)}</b> {escape(caption)}</figcaption>'
        f"{_numbers(title, about.get('table'))}</figure>\n"
    )


def _numbers(title: str, table: object) -> str:
    if not isinstance(table, list) or len(table) < 2 or not all(isinstance(r, list) for r in table):
        return ""
    head, *lines = table
    numeric = [
        all(_is_number(line[i]) for line in lines if i < len(line)) for i in range(len(head))
    ]
    heads = "".join(
        f"<th{' class=n' if number else ''} scope=col>{escape(str(label))}</th>"
        for label, number in zip(head, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(value) for value in line)}</tr>" for line in lines)
    inner = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    numbers = scrollable(f"Numbers of the figure: {title}", inner, sortable=True)
    return f"<details><summary>Numbers of this figure</summary>{numbers}</details>"


def _cell(value: object) -> str:
    if value is None:
        return "<td>–</td>"
    if not _is_number(value):
        return f"<td>{escape(str(value))}</td>"
    return f'<td class=n data-v="{value}">{minus(f"{value:.6g}")}</td>'


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _about(path: Path) -> dict[str, object]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); expected title, caption and table: delete it, or "
            "let `semimedref figures` write it again"
        ) from None
    return about if isinstance(about, dict) else {}
