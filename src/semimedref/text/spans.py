"""Edit the positional phrases of a sentence: drop, fuzz, remove, conjoin (paper, PosAug, ISPG)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from semimedref.text.conjoin import Writing, append_phrase, conjoin, lesion_count, restate
from semimedref.text.position import find
from semimedref.text.removal import remove
from semimedref.text.span import Span, put
from semimedref.text.vocabulary import UNK_POS
from semimedref.text.vocabulary import vocabulary as look_up

__all__ = [
    "EDITS", "Edit", "Laterality", "Span", "Writing", "append_phrase", "conflict", "conjoin",
    "drop", "edit", "find", "fuzz", "laterality", "lesion_count", "phrases", "remove", "restate",
]  # fmt: skip

Edit = Literal["keep", "drop", "fuzz"]
EDITS: tuple[Edit, ...] = ("keep", "drop", "fuzz")
Laterality = Literal["left", "right", "both", "none"]


def phrases(text: str, vocabulary: str) -> tuple[Span, ...]:
    """The phrases that PosAug may edit, each on its own: all but empty slots."""
    return tuple(span for span in find(text, vocabulary) if not span.slot)


def edit(text: str, vocabulary: str, edits: Sequence[Edit]) -> str:
    """Keep, drop or fuzz every phrase of `phrases`; all other characters stay."""
    words = look_up(vocabulary)
    for span, how in reversed(list(zip(phrases(text, vocabulary), edits, strict=True))):
        if how == "drop":
            text = put(text, span.start, span.end, UNK_POS)
        elif how == "fuzz":
            fuzzy = f"in {words.fuzzy}" if span.adverb else words.fuzzy
            text = put(text, span.start, span.end, fuzzy)
    return text


def drop(text: str, vocabulary: str) -> str:
    """Replace every positional phrase by the special token."""
    return edit(text, vocabulary, ["drop"] * len(phrases(text, vocabulary)))


def fuzz(text: str, vocabulary: str) -> str:
    """Replace every positional phrase by one that names no region."""
    return edit(text, vocabulary, ["fuzz"] * len(phrases(text, vocabulary)))


def laterality(position: Sequence[int], vocabulary: str) -> Laterality:
    """Which sides a label marks; regions on the midline belong to none."""
    words = look_up(vocabulary)
    sides = {words.cells[i].side for i in words.indices(position)} - {None}
    if len(sides) > 1:
        return "both"
    return "left" if "left" in sides else "right" if "right" in sides else "none"


def conflict(one: Sequence[int], other: Sequence[int], vocabulary: str) -> bool:
    """Whether one label is left only and the other right only."""
    return {laterality(one, vocabulary), laterality(other, vocabulary)} == {"left", "right"}
