"""The grammar of an own vocabulary: a region is named by any of its listed wordings.

Letter case, hyphens and an article in front do not matter. Where two wordings overlap in a sentence
the longer one is read: "upper pole of the left kidney" is not also "left kidney".
"""

from __future__ import annotations

import re
from functools import lru_cache

from semimedref.text.span import BLANK, Span, masked
from semimedref.text.vocabulary import Vocabulary

_ARTICLE = r"(?:the|an?|its)"


def plain(wording: str) -> str:
    """What two spellings of one wording share: small letters, no article, no hyphens."""
    words = " ".join(re.split(r"[\s-]+", wording.strip())).lower()
    return re.sub(rf"^{_ARTICLE} ", "", words)


def find(text: str, vocabulary: Vocabulary) -> list[Span]:
    """All wordings in a sentence, from left to right."""
    free = masked(text, vocabulary)
    spans: list[Span] = []
    for pattern, region in _patterns(vocabulary):
        side = vocabulary.cells[region].side
        sides = () if side is None else (side,)
        spans += [Span(*m.span(), regions=(region,), sides=sides) for m in pattern.finditer(free)]
        free = pattern.sub(lambda m: BLANK * len(m.group()), free)
    return sorted(spans, key=lambda span: span.start)


@lru_cache(maxsize=16)
def _patterns(vocabulary: Vocabulary) -> tuple[tuple[re.Pattern[str], int], ...]:
    """A pattern for every wording with its region, the longest wording first."""
    every = {plain(w): i for i, cell in enumerate(vocabulary.cells) for w in cell.wordings}
    return tuple((_pattern(w), every[w]) for w in sorted(every, key=lambda w: (-len(w), w)))


def _pattern(wording: str) -> re.Pattern[str]:
    words = r"[\s-]+".join(map(re.escape, wording.split(" ")))
    return re.compile(rf"(?<!\w)(?:{_ARTICLE}\s+)?{words}(?!\w)", re.I)
