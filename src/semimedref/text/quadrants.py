"""The grammar of PosMed's answers: four quadrants and the center of the image.

A vertical and a horizontal word make a quadrant if only filler words stand between them; words
that find no partner count alone only where no pair is named, and the center only where no
direction is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from semimedref.text.span import Span, masked
from semimedref.text.vocabulary import QUADRANTS

_WORDS = {
    "top": "top", "upper": "top", "bottom": "bottom", "lower": "bottom", "left": "left",
    "right": "right", "center": "center", "centre": "center", "central": "center",
    "centrally": "center", "centered": "center", "centred": "center", "middle": "center",
}  # fmt: skip
_FILLER = frozenset((
    "third", "part", "portion", "section", "region", "area", "quadrant", "lobe", "side",
    "segment", "zone", "division", "of", "the", "on", "toward", "towards", "to", "in", "at",
    "lung", "image", "scan", "corner", "hand", "half", "position",
))  # fmt: skip
_REACH = 7  # words from one word of a pair to the other, at most
_LINKS = frozenset(("and", "or"))
_NOUN = (
    r"(?:thirds?|parts?|portions?|sections?|regions?|areas?|quadrants?|lobes?|sides?|segments?"
    r"|zones?|divisions?|corners?|positions?|locations?|hal(?:f|ves)|lungs?|hand|most)"
)
_WHOLE = r"(?:\s+(?:of|in|on|within)\s+(?:the|an?|this)\s+(?:\w+\s+)?(?:image|scan|picture)\b)"
_BEFORE = re.compile(r"\b(?:the|an?|its)\s+(?:(?:\w+\s+)?(?:image|scan)'s\s+)?$", re.I)
_AFTER = re.compile(rf"(?:[\s-]+{_NOUN}\b)*{_WHOLE}?", re.I)
_ADVERBS = frozenset(("centrally", "centered", "centred"))
_AFTER_ADVERB = re.compile(rf"(?:\s+(?:located|situated|positioned|placed)\b)?{_WHOLE}?", re.I)
_SHARED_NOUN = re.compile(r"\s+(?:and|or)\s+(?:near(?:ly)?|close\s+to|approximately)[\s-]+", re.I)
_ADDED = re.compile(r"(?<=[.!?])\s+(?=Another lesion )")  # as `added_sentence` begins


@dataclass(frozen=True)
class _Word:
    start: int
    end: int
    index: int  # among all words of the statement
    meaning: str

    @property
    def vertical(self) -> bool:
        return self.meaning in QUADRANTS.levels


def find(text: str) -> list[Span]:
    """All spatial phrases of an answer, from left to right."""
    plain = masked(text, QUADRANTS)
    cuts = [0, *(m.end() for m in _ADDED.finditer(plain)), len(plain)]
    spans: list[Span] = []
    for begin, end in itertools.pairwise(cuts):
        spans += _statement(plain, begin, end)
    return spans


def _statement(text: str, begin: int, end: int) -> list[Span]:
    every = [
        (m.start() + begin, m.end() + begin, m.group().lower())
        for m in re.finditer(r"[A-Za-z]+|[.!?;]", text[begin:end])
    ]
    words = [_Word(s, e, i, _WORDS[w]) for i, (s, e, w) in enumerate(every) if w in _WORDS]
    directions = [w for w in words if w.meaning != "center"]
    centers = [w for w in words if w.meaning == "center"]
    groups = _pairs(directions, [w for _, _, w in every])
    found = [(group, _zones(group)) for group in groups]
    taken = {w for group in groups for w in group}
    alone = [w for w in directions if w not in taken]
    found += [((w,), () if groups else _zones(alone, within=w)) for w in alone]
    center = () if directions else (QUADRANTS.regions.index("center"),)
    found += [((w,), center) for w in centers]
    found.sort(key=lambda f: min(w.start for w in f[0]))
    return _merge([_span(text, group, regions, end) for group, regions in found], text)


def _pairs(words: Sequence[_Word], every: Sequence[str]) -> list[tuple[_Word, ...]]:
    """Words that make quadrants together, the nearest first, every word once.

    Two words of one axis that are linked ("upper and lower left") share their partner.
    """
    units: list[tuple[_Word, ...]] = [(w,) for w in words]
    for a, b in itertools.pairwise(words):
        between = set(every[a.index + 1 : b.index])
        if a.vertical == b.vertical and between & _LINKS and between <= _LINKS | _FILLER:
            units = [u for u in units if u not in ((a,), (b,))] + [(a, b)]
    candidates = []
    for one in units:
        for two in units:
            gap = every[one[-1].index + 1 : two[0].index]
            near = 0 < two[0].index - one[-1].index <= _REACH
            if near and one[0].vertical != two[0].vertical and set(gap) <= _FILLER:
                # A shared partner is worth a longer way than a private one.
                candidates.append((len(gap), -len(one) - len(two), one, two))
    candidates.sort(key=lambda c: (c[0], c[1], c[2][0].index))
    pairs: list[tuple[_Word, ...]] = []
    for _, _, one, two in candidates:
        if not any(w in pair for pair in pairs for w in (*one, *two)):
            pairs.append((*one, *two))
    return pairs


def _zones(words: Iterable[_Word], within: _Word | None = None) -> tuple[int, ...]:
    """All combinations of the words; an axis without a word is open."""
    said = {w.meaning for w in words}
    levels = said & set(QUADRANTS.levels) or set(QUADRANTS.levels)
    sides = said & set(QUADRANTS.sides) or set(QUADRANTS.sides)
    return tuple(
        i
        for i, c in enumerate(QUADRANTS.cells)
        if c.level in levels and c.side in sides
        if within is None or within.meaning in (c.level, c.side)
    )


def _span(text: str, group: Sequence[_Word], regions: tuple[int, ...], limit: int) -> Span:
    """The words with their article, noun and "of the image"."""
    start, end = min(w.start for w in group), max(w.end for w in group)
    before = _BEFORE.search(text[:start])
    adverb = before is None and text[start:end].lower() in _ADVERBS
    after = (_AFTER_ADVERB if adverb else _AFTER).match(text[:limit], end)
    sides = tuple(w.meaning for w in group if w.meaning in QUADRANTS.sides)
    return Span(
        start=before.start() if before else start,
        end=after.end() if after else end,
        regions=regions,
        sides=sides,
        adverb=adverb,
    )


def _merge(spans: Sequence[Span], text: str) -> list[Span]:
    """Join phrases that overlap or share a noun: "the central and near-central regions"."""
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        gap = text[last.end : span.start] if last else ""
        if (
            last
            and (span.start < last.end or _SHARED_NOUN.fullmatch(gap))
            and (span.regions == last.regions or not span.regions or not last.regions)
        ):
            merged[-1] = Span(
                last.start,
                max(last.end, span.end),
                last.regions or span.regions,
                last.sides or span.sides,
                adverb=last.adverb,
            )
        else:
            merged.append(span)
    return merged
