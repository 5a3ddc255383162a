"""Sentences without their positions: what is deleted, and from which of them (paper, ISPG)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from semimedref.errors import UserError
from semimedref.text.position import find
from semimedref.text.span import blanks
from semimedref.text.spelling import distance
from semimedref.text.vocabulary import vocabulary as look_up

KEYS = ("image_id", "report_text")
_SALT = 42  # with it `report_text` chooses exactly the sentences that the authors' code chooses
_BYTES, _SPAN = 6, 2.0**48  # of the digest that count: exact in a float

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


class Removal:
    """A_rho: all positional phrases go, with some probability (paper, Eq. ispg).

    Args:
        vocabulary: regions of the data set's sentences.
        training: rho_tr, the chance of each sentence that the student reads.
        validation: share of the validation sentences by which the best epoch is chosen.
        key: what decides an evaluation: ``image_id``, or ``report_text`` as in the release, where
            equal sentences are removed together (of 63 QaTa captions, 20 % are 60 % of the images).
    """

    def __init__(self, *, vocabulary: str, training: float, validation: float, key: str) -> None:
        _check_key(key)
        for name, share in (("training", training), ("validation", validation)):
            check_share(f"method.removal.{name}", share)
        self.vocabulary, self.key = vocabulary, key
        self.training, self.validation = training, validation

    def __call__(self, sentence: str, u: float) -> str:
        """The sentence as the student reads it; u is the sample's number in [0, 1)."""
        return remove(sentence, self.vocabulary) if u < self.training else sentence


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


def removed_of(ids: Sequence[str], texts: Sequence[str], share: float, *, key: str) -> list[bool]:
    """Which cases lose their positions; those of a smaller share are among those of a larger."""
    _check_key(key)
    return [number(case) < share for case in (ids if key == "image_id" else texts)]


def number(case: str) -> float:
    """A number in [0, 1) that a case keeps for ever."""
    digest = hashlib.sha256(f"{_SALT}|{case}".encode()).digest()
    return int.from_bytes(digest[:_BYTES], "big") / _SPAN


def check_share(name: str, share: float) -> None:
    """Refuse what is no share."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UserError(f"{name}={share}: expected a number from 0 to 1")


def _check_key(key: str) -> None:
    if key not in KEYS:
        raise UserError(f"removal key '{key}' is unknown: expected {' or '.join(KEYS)}")


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
