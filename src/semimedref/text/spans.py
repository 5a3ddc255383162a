"""Edit the positional phrases of a sentence: drop, fuzz, remove, conjoin (paper, PosAug, ISPG)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from semimedref.text.conjoin import Writing, append_phrase, conjoin
from semimedref.text.position import find
from semimedref.text.span import Span, blanks, put
from semimedref.text.spelling import distance
from semimedref.text.vocabulary import UNK_POS
from semimedref.text.vocabulary import vocabulary as look_up

__all__ = [
    "EDITS", "Edit", "Laterality", "Span", "Writing", "append_phrase", "conflict", "conjoin",
    "drop", "edit", "find", "fuzz", "laterality", "phrases", "remove",
]  # fmt: skip

Edit = Literal["keep", "drop", "fuzz"]
EDITS: tuple[Edit, ...] = ("keep", "drop", "fuzz")
Laterality = Literal["left", "right", "both", "none"]

# Words that lead to a place and are left over when it goes; a verb such as "is" must stay behind.
_LEADING = (
    "a", "adjacent", "also", "and", "approximately", "around", "at", "away", "being", "both",
    "but", "close", "closer", "distance", "distant", "far", "from", "in", "indicating", "its",
    "location", "near", "nearly", "not", "of", "off", "on", "or", "position", "presence",
    "proximity", "slight", "slightly", "specifically", "the", "to", "toward", "towards", "very",
    "vicinity", "with", "within",
)  # fmt: skip
_BETWEEN = (
    *_LEADING,
    "appears", "are", "be", "found", "is", "it", "located", "placed", "positioned", "situated",
    "that", "which",
)  # fmt: skip
_LEAD = re.compile(rf"(?:(?:^|[\s,;:-]+)(?:{'|'.join(_LEADING)})\b)*[\s,;:-]*$", re.I)
_LINK = re.compile(rf"(?:[\s,;:-]*\b(?:{'|'.join(_BETWEEN)})\b)*[\s,;:-]*", re.I)


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


def remove(text: str, vocabulary: str) -> str:
    """Delete all positional phrases and what earlier edits left of them.

    Laterality and count stay: only explicit positions go, with the prepositions and commas that
    led to them. A sentence that would end in "is" ends in "is visible".

    >>> remove("Unilateral pulmonary infection, one infected area, lower right lung.", "lungs")
    'Unilateral pulmonary infection, one infected area.'
    """
    places = [(span.start, span.end) for span in find(text, vocabulary)]
    for start, end in reversed(_blocks(text, places + blanks(text, look_up(vocabulary)))):
        left, right = _LEAD.sub("", text[:start]), text[end:]
        left, right = _mend(left, right)
        text = left + (" " if left and right[:1].isalnum() else "") + right
    # What stood on both sides of a removed phrase may make another one; each round is shorter.
    return remove(text, vocabulary) if find(text, vocabulary) else text


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


def _mend(left: str, right: str) -> tuple[str, str]:
    """Make the two sides of a removed place fit: no verb without its end, no lost negation."""
    left = re.sub(r"\bnot (located|placed|positioned|situated)$", r"\1", left)
    if re.search(r"\b(?:is|are|be)$", left):
        also = re.match(r",?\s+(?:and|but)(?:\s+it)?\s+is\b", right)
        if also:  # "is [near the center] and is benign"
            return left, right[also.end() :]
        if not right[:2].strip()[:1].isalnum():
            return f"{left} visible", right
    return left, right if left else right.lstrip(" ,;:-")


def _blocks(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join places between which only connecting words stand."""
    blocks: list[tuple[int, int]] = []
    for start, end in sorted(places):
        gap = text[blocks[-1][1] : start] if blocks else ""
        if blocks and (_LINK.fullmatch(gap) or distance(gap.strip(" ,").lower(), "and") == 1):
            blocks[-1] = (blocks[-1][0], end)
        else:
            blocks.append((start, end))
    return blocks
