"""The frame of every page: head with policy, style and script, sections with their links."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

from semimedref import __version__

NOTICE = "Unofficial. Research use only; not a medical device."

Part = tuple[str, str, str]  # name of the section, its title, its HTML


def frame(title: str, *, above: str, summary: str, parts: Sequence[Part]) -> str:
    """A whole page as text.

    Args:
        title: what the page is about.
        above: a short line over the title, HTML.
        summary: one sentence under the title.
        parts: the sections; those without content are left out.
    """
    shown = [part for part in parts if part[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in shown)
    body = "".join(
        f'<section id={name} aria-labelledby="{name}-h"><h2 id="{name}-h">{escape(head)}</h2>'
        f"{content}</section>\n"
        for name, head, content in shown
    )
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return (
        f"{_head(title)}<body>\n<header><p class=eyebrow>{above}</p><h1>{escape(title)}</h1>"
        f"<p class=soft>{escape(summary)}</p><p class=notice>{NOTICE}</p>"
        f'<nav aria-label="Sections">{links}</nav></header>\n<main>\n{body}</main>\n'
        f"<footer>semimedref {escape(__version__)} · {now} · {NOTICE}</footer>\n"
        f"<script>{_script()}</script>\n</body>\n</html>\n"
    )


def _head(title: str) -> str:
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        '<meta name=referrer content=no-referrer>\n<link rel=icon href="data:,">\n'
        f"<title>{escape(title)} · semimedref</title>\n<style>\n{css}</style>\n</head>\n"
    )


def _script() -> str:
    return Path(__file__).with_name("report.js").read_text(encoding="utf-8")


def _policy() -> str:
    """The browser itself refuses what is not inside the page, and every script but ours."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode("ascii")
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
