"""The grammar of the lung reports: which words name which regions.

A report is `{laterality} pulmonary infection, {number} infected area(s), {phrase} [and {phrase}].`
and a phrase is levels, a side and "lung", in nearly any order and spelling. A region is named
only by a side *and* a level: a bare "left lung" is an empty slot.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from semimedref.text.caption import NUMBERS
from semimedref.text.span import BLANK, Span, masked
from semimedref.text.spelling import Lexicon, Token, distance, read
from semimedref.text.vocabulary import LUNGS

ALL = "all"
BOTH = "both"
_PLACE = (
    *((level, level) for level in LUNGS.levels),
    ("higher", "upper"),
    (ALL, ALL),
    *((side, side) for side in LUNGS.sides),
    ("lung", "lung"),
    ("lungs", "lung"),
    ("and", "and"),
)
_STRICT = (
    ("top", "upper"),
    ("mid", "middle"),
    ("bottom", "lower"),
    ("whole", ALL),
    ("entire", ALL),
    ("both", BOTH),
    ("or", "and"),
)
_HEADER = (
    *((number, f"number {i}") for i, number in enumerate(NUMBERS)),
    ("unilateral", "unilateral"),
    ("bilateral", "bilateral"),
    ("no", "no"),
    ("pulmonary", "pulmonary"),
    ("infection", "infection"),
    ("infected", "infected"),
    ("area", "area"),
    ("areas", "area"),
)
PLACE_WORDS = Lexicon(_PLACE, _STRICT)
ALL_WORDS = Lexicon(_HEADER + _PLACE, _STRICT)
_INFECTED_AREA = ("infected", "area")
_POSITIONAL = {*LUNGS.levels, *LUNGS.sides, ALL, BOTH}


@dataclass
class _Clause:
    """One phrase while it is being read."""

    attached: bool  # no "and", comma or "lung" stands between it and the phrase before
    tokens: list[Token] = field(default_factory=list)
    organ: bool = False  # it ends in "lung"

    @property
    def sides(self) -> tuple[str, ...]:
        said = [t.meaning for t in self.tokens]
        return tuple(s for s in LUNGS.sides if s in said or BOTH in said)

    @property
    def levels(self) -> tuple[str, ...]:
        said = [t for t in self.tokens if t.meaning in LUNGS.levels]
        # Beside another level a doubtful "all" ("lower ll left lung") is a slip of the keyboard.
        if any(t.meaning == ALL and (t.exact or not said) for t in self.tokens):
            return LUNGS.levels
        return tuple(x for x in LUNGS.levels if any(t.meaning == x for t in said))

    @property
    def side_first(self) -> bool:
        return bool(self.tokens) and self.tokens[0].meaning in (*LUNGS.sides, BOTH)


def find(text: str) -> list[Span]:
    """All positional phrases of a lung report, from left to right."""
    plain = masked(text, LUNGS)
    clauses = _clauses(plain, _place_tokens(plain))
    sides = _infer_sides(clauses, _laterality(plain))
    spans = []
    for clause, where in zip(clauses, sides, strict=True):
        start = clause.tokens[0].start
        article = re.search(r"\bthe\s+$", text[:start], flags=re.I)
        regions = sorted(LUNGS.find(side, level) for side in where for level in clause.levels)
        spans.append(
            Span(
                start=article.start() if article else start,
                end=clause.tokens[-1].end,
                regions=tuple(regions),
                sides=clause.sides,
                slot=not regions,
            )
        )
    return spans


def header(text: str) -> list[Token]:
    """The words before the phrases (laterality, count), or of the whole text without phrases."""
    tokens = read(masked(text, LUNGS), ALL_WORDS)
    return tokens[: _header_length(tokens) or len(tokens)]


def _place_tokens(text: str) -> list[Token]:
    """The words that can be part of a phrase: those after "infected area(s)", if any are there."""
    every = read(text, ALL_WORDS)
    length = _header_length(every)
    if length:
        begin = every[length - 1].end
        shifted = [
            Token(t.start + begin, t.end + begin, t.meaning, t.exact)
            for t in read(text[begin:], PLACE_WORDS)
        ]
        if any(t.meaning in _POSITIONAL for t in shifted):
            return _settle(text, shifted)
    return _settle(text, every)


def _header_length(tokens: Sequence[Token]) -> int:
    pairs = itertools.pairwise(tokens)
    ends = [i + 2 for i, (a, b) in enumerate(pairs) if (a.meaning, b.meaning) == _INFECTED_AREA]
    return ends[0] if ends else 0


def _settle(text: str, tokens: list[Token]) -> list[Token]:
    """Decide between "all" and "and" where a word is as near to one as to the other."""
    for i, token in enumerate(tokens):
        word = text[token.start : token.end].lower()
        doubtful = token.meaning == ALL and not token.exact and distance(word, "and") == 1
        after_phrase = i > 0 and tokens[i - 1].meaning in (*LUNGS.sides, "lung")
        if doubtful and (after_phrase or text[: token.start].rstrip().endswith(BLANK)):
            tokens[i] = Token(token.start, token.end, "and", False)
    return tokens


def _clauses(text: str, tokens: Sequence[Token]) -> list[_Clause]:
    done: list[_Clause] = []
    clause = _Clause(attached=False)
    last = 0
    for token in tokens:
        if token.meaning == "and" or re.search(r"[,.;:()]", text[last : token.start]):
            clause = _close(done, clause, attached=False)
        last = token.end
        if token.meaning == "lung" and clause.tokens:
            clause.tokens.append(token)
            clause.organ = True
            clause = _close(done, clause, attached=False)
        elif token.meaning in _POSITIONAL:
            if _complete(clause, token):
                clause = _close(done, clause, attached=True)
            clause.tokens.append(token)
    _close(done, clause, attached=False)
    return done


def _close(done: list[_Clause], clause: _Clause, *, attached: bool) -> _Clause:
    if clause.tokens:
        done.append(clause)
    return _Clause(attached)


def _complete(clause: _Clause, token: Token) -> bool:
    """Whether the phrase has its side and level, and the next word begins another one."""
    is_side = token.meaning in (*LUNGS.sides, BOTH)
    return bool(clause.sides and clause.levels) and is_side == clause.side_first


def _laterality(text: str) -> str | None:
    said = [t.meaning for t in read(text, ALL_WORDS)]
    return next((w for w in ("bilateral", "unilateral") if w in said), None)


def _infer_sides(clauses: Sequence[_Clause], laterality: str | None) -> list[tuple[str, ...]]:
    """The sides of every phrase; one that is not said follows from the other phrases."""
    named = {side for clause in clauses for side in clause.sides}
    lost = [c for c in clauses if not c.sides and c.levels]
    sides = []
    for i, clause in enumerate(clauses):
        if clause.sides or not clause.levels:
            sides.append(clause.sides)
        elif named:
            sides.append(_missing_side(clauses, i, named, laterality))
        elif laterality != "bilateral":
            sides.append(())
        elif len(lost) == 1:
            sides.append(LUNGS.sides)
        else:  # two phrases without a side: the reports name the sides in this order
            sides.append((LUNGS.sides[min(lost.index(clause), len(LUNGS.sides) - 1)],))
    return sides


def _missing_side(
    clauses: Sequence[_Clause], i: int, named: set[str], laterality: str | None
) -> tuple[str, ...]:
    clause = clauses[i]
    before = [c.sides for c in clauses[:i] if c.sides]
    after = [c.sides for c in clauses[i + 1 :] if c.sides]
    if clause.attached and before:  # "upper left lower lung"
        return before[-1]
    if len(named) < len(LUNGS.sides):
        same = laterality == "unilateral" or (laterality is None and not clause.organ)
        return tuple(s for s in LUNGS.sides if (s in named) == same)
    if after and not (clause.organ and before):  # "upper and lower left lung"
        return after[0]
    return before[-1]
