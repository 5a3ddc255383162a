"""A positional phrase: where it stands in a sentence and what it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from semimedref.text.vocabulary import UNK_POS, Vocabulary

BLANK = ";"  # what `masked` writes over earlier edits: a sign that ends a phrase


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of a sentence and the regions that they name.

    A slot is a phrase that says too little to name a region ("left lung" without a level): it is
    removed with the others, but there is nothing in it to drop or to fuzz.
    """

    start: int
    end: int
    regions: tuple[int, ...]
    sides: tuple[str, ...] = ()  # those said in words, not those inferred
    slot: bool = False
    adverb: bool = False  # it says where without a preposition before it ("centrally")


def blanks(text: str, vocabulary: Vocabulary) -> list[tuple[int, int]]:
    """Where an earlier edit stands: dropped phrases and fuzzy ones.

    A tokenizer that does not know the special token gives it back as "[ unk _ pos ]".
    """
    dropped = r"\s*".join(map(re.escape, re.findall(r"[A-Za-z]+|\S", UNK_POS)))
    fuzzy = r"\s+".join(map(re.escape, vocabulary.fuzzy.split()))
    return [m.span() for m in re.finditer(rf"{dropped}|\b{fuzzy}\b", text, flags=re.I)]


def masked(text: str, vocabulary: Vocabulary) -> str:
    """The text with earlier edits overwritten, every other character in its place."""
    for start, end in blanks(text, vocabulary):
        text = text[:start] + BLANK * (end - start) + text[end:]
    return text


def put(text: str, start: int, end: int, words: str) -> str:
    """Write words over a stretch of the text, apart from letters that were glued to it."""
    left, right = text[:start], text[end:]
    before = " " if left[-1:].isalnum() and words[:1].strip() else ""
    after = " " if right[:1].isalnum() and words[-1:].strip() else ""
    return left + before + words + after + right


def added_sentence(phrase: str) -> str:
    """The sentence that names a region from another image; it is read on its own."""
    return f"Another lesion is in {phrase}."
