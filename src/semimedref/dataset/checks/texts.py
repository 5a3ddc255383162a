"""Sentences in which no position is recognized."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from semimedref.dataset.case import Case, Problem

_SHOWN = 40  # characters of a sentence: enough to find it
_FIX = "nothing to do if it names no place on purpose: its position is empty and it is never mixed"


def check_texts(cases: Sequence[Case]) -> Iterator[Problem]:
    """One warning for each sentence without a position; an empty one is an error of its own."""
    for case in cases:
        if case.text and not any(case.position):
            said = textwrap.shorten(case.text, _SHOWN, placeholder="…")
            yield Problem("text names no position", f"{case.id} ({said})", _FIX, "warning")
