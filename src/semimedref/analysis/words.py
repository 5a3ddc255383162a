"""Which tokens of a sentence belong to which word, and which words say where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semimedref.text.spans import phrases
from semimedref.text.vocabulary import UNK_POS
from semimedref.text.vocabulary import vocabulary as look_up

if TYPE_CHECKING:
    from semimedref.model.encoders.tokenizer import Token

_WORD = re.compile(rf"{re.escape(UNK_POS)}|\w+|[^\w\s]")


@dataclass(frozen=True)
class Word:
    """A word or a sign, and the tokens that stand for it."""

    text: str
    tokens: tuple[int, ...]  # places in the network's token sequence
    positional: bool


def read_words(text: str, vocabulary: str, tokens: Sequence[Token]) -> list[Word]:
    """The words of a sentence with their tokens, as far as the encoder reads.

    A word is positional if it stands in a positional phrase and is none of the words that the
    location-agnostic phrase has too: "lower" and "left", but not "lung".

    Args:
        text: the sentence.
        vocabulary: name of its vocabulary.
        tokens: what the encoder reads of it; [CLS] and [SEP] stand for no character.
    """
    places = [(s.start, s.end) for s in phrases(text, vocabulary)]
    agnostic = set(look_up(vocabulary).fuzzy.lower().split())
    words = []
    for m in _WORD.finditer(text):
        own = tuple(
            i for i, t in enumerate(tokens) if t.end > t.start and m.start() <= t.start < m.end()
        )
        inside = any(m.start() < stop and start < m.end() for start, stop in places)
        plain = m.group().lower()
        says_where = plain[0].isalnum() and not {plain, plain.removesuffix("s")} & agnostic
        words.append(Word(m.group(), own, inside and says_where))
    return [word for word in words if word.tokens]
