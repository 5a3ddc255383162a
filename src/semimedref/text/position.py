"""From words to regions: the position label q of a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from semimedref.text import lungs, quadrants, wordings
from semimedref.text.span import Span
from semimedref.text.vocabulary import LUNGS, QUADRANTS
from semimedref.text.vocabulary import vocabulary as look_up

_GRAMMARS: dict[str, Callable[[str], list[Span]]] = {
    LUNGS.name: lungs.find,
    QUADRANTS.name: quadrants.find,
}


def parse(text: str, vocabulary: str | None) -> list[int]:
    """The regions that a sentence names, as 0/1 in the order of the vocabulary.

    >>> parse("Unilateral pulmonary infection, one infected area, lowerright lung.", "lungs")
    [0, 0, 0, 0, 0, 1]
    """
    spans = find(text, vocabulary)
    return look_up(vocabulary).multi_hot(i for span in spans for i in span.regions)


def parse_slots_as_whole(text: str, vocabulary: str) -> list[int]:
    """Like `parse`, but a side without a level counts as all its levels.

    The published code labels the training texts of MosMedData+ so when labels are scarce.
    """
    words = look_up(vocabulary)
    spans = find(text, vocabulary)
    bare = {side for span in spans if span.slot for side in span.sides}
    filled = [i for i, cell in enumerate(words.cells) if cell.side in bare]
    return words.multi_hot([*filled, *(i for span in spans for i in span.regions)])


@lru_cache(maxsize=16384)  # a data set repeats few sentences many times
def find(text: str, vocabulary: str | None) -> tuple[Span, ...]:
    """All positional phrases of a sentence, from left to right, without overlap."""
    if vocabulary in _GRAMMARS:
        return tuple(_GRAMMARS[vocabulary](text))
    return tuple(wordings.find(text, look_up(vocabulary)))
