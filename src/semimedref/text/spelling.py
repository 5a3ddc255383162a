"""Read words that are misspelt, glued together or torn apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

# Ordinary words that lie two edits from a word of the vocabulary and must not be taken for it.
_ORDINARY = frozenset(("after", "later", "layer", "lesser", "liver", "other", "over", "under"))
_SHORT = 3  # letters: such words may be one edit off alone, but never inside a glued word
_LONG = 5  # letters: such words may be two edits off if their first letter is right


@dataclass(frozen=True, eq=False)  # compared and hashed by identity: it is a key of caches
class Lexicon:
    """Known words, earlier ones preferred when two are equally near, with what they mean.

    Words of `strict` stand for something only when they are spelt exactly so.
    """

    words: tuple[tuple[str, str], ...]
    strict: tuple[tuple[str, str], ...] = ()

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What the words mean that may be misspelt."""
        return dict(self.words)


@dataclass(frozen=True)
class Token:
    """A stretch of text read as one word."""

    start: int
    end: int
    meaning: str | None  # None: not a word of the lexicon
    exact: bool


@lru_cache(maxsize=4096)
def distance(a: str, b: str) -> int:
    """Count the letters to insert, delete, exchange or swap with a neighbour to turn a into b."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def read(text: str, lexicon: Lexicon) -> list[Token]:
    """Read every word of the text; a glued word gives several tokens, a torn one gives one."""
    found = [(m.start(), m.end()) for m in re.finditer(r"[A-Za-z]+", text)]
    tokens: list[Token] = []
    skip = False
    for i, (start, end) in enumerate(found):
        if skip:
            skip = False
            continue
        if i + 1 < len(found) and _torn(text, (start, end), found[i + 1], lexicon):
            end = found[i + 1][1]
            skip = True
        word = re.sub(r"\s", "", text[start:end]).lower()
        if skip:
            tokens.append(Token(start, end, _pieces(word, lexicon)[0].meaning, True))
        else:
            tokens += [
                Token(start + p.start, start + p.end, p.meaning, p.exact)
                for p in _pieces(word, lexicon)
            ]
    return tokens


def _torn(text: str, one: tuple[int, int], two: tuple[int, int], lexicon: Lexicon) -> bool:
    """Whether two neighbours, neither of them a known word, are one known word with a gap."""
    if not text[one[1] : two[0]].isspace():
        return False
    known = lexicon.meanings
    first, second = text[slice(*one)].lower(), text[slice(*two)].lower()
    return first + second in known and first not in known and second not in known


@lru_cache(maxsize=4096)
def _pieces(word: str, lexicon: Lexicon) -> tuple[Token, ...]:
    known = lexicon.meanings | dict(lexicon.strict)
    if word in known:
        return (Token(0, len(word), known[word], True),)
    near = nearest(word, lexicon)
    if near is not None and distance(word, near) == 1:
        return (Token(0, len(word), known[near], False),)
    glued = _unglue(word, lexicon)
    if glued is not None:
        return glued
    meaning = None if near is None else known[near]
    return (Token(0, len(word), meaning, False),)


@lru_cache(maxsize=4096)
def nearest(word: str, lexicon: Lexicon) -> str | None:
    """The known word that this one most likely was meant to be, if any is near enough."""
    best: tuple[int, str] | None = None
    for known, _ in lexicon.words:
        if abs(len(word) - len(known)) > 2:
            continue
        edits = distance(word, known)
        if edits <= _tolerance(word, known) and (best is None or edits < best[0]):
            best = edits, known
    return None if best is None else best[1]


def _tolerance(word: str, known: str) -> int:
    if len(word) < 2 or len(known) < _SHORT or word in _ORDINARY:
        return 0
    if min(len(word) + 1, len(known)) >= _LONG and word[0] == known[0]:
        return 2
    return 1


def _unglue(word: str, lexicon: Lexicon) -> tuple[Token, ...] | None:
    """Cut the word into known ones with at most one edit in all, the fewest cuts first."""
    options: list[list[tuple[int, tuple[Token, ...]]]] = [[] for _ in range(len(word) + 1)]
    options[0] = [(0, ())]
    for end in range(2, len(word) + 1):
        for start in range(end - 1):
            for known, meaning in lexicon.words:
                if abs(len(known) - (end - start)) > 1 or not options[start]:
                    continue
                edits = distance(word[start:end], known)
                if edits > (len(known) > _SHORT):
                    continue
                piece = Token(start, end, meaning, edits == 0)
                options[end] += [(e + edits, (*p, piece)) for e, p in options[start] if e < 2]
        options[end] = sorted((o for o in options[end] if o[0] < 2), key=_effort)[:8]
    return options[-1][0][1] if options[-1] else None


def _effort(option: tuple[int, tuple[Token, ...]]) -> tuple[int, int]:
    edits, pieces = option
    return edits, len(pieces)
