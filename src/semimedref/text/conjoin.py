"""Make a sentence true of a mixed image: a phrase is added, or the regions are said anew."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from semimedref.errors import UserError
from semimedref.text import lungs
from semimedref.text.caption import NUMBERS, lung_caption
from semimedref.text.position import find
from semimedref.text.removal import remove
from semimedref.text.span import Span, added_sentence, blanks, put
from semimedref.text.spelling import Token
from semimedref.text.vocabulary import LUNGS
from semimedref.text.vocabulary import vocabulary as look_up


@dataclass(frozen=True)
class Writing:
    """How the reports of a data set count and abbreviate.

    Attributes:
        count: "regions" if the number is that of the named regions, "increment" if it counts
            lesions, so that a pasted one adds 1.
        cap: The largest number that the reports use, or None.
        always_plural: Whether they write "one infected areas".
        whole: What stands for all levels of a side, or None to list them.
    """

    count: str
    cap: int | None
    always_plural: bool
    whole: str | None

    def __post_init__(self) -> None:
        if self.count not in ("regions", "increment"):
            raise UserError(
                f"unknown count rule {self.count!r}, expected regions or increment; "
                "set `writing.count` in the option file of the data set"
            )


def conjoin(
    text: str,
    regions: Sequence[int],
    vocabulary: str,
    writing: Writing | None,
    *,
    known: Sequence[int] = (),
) -> str:
    """The sentence with the regions of a donor's phrase added, so that it parses to the union.

    Args:
        text: The sentence of the image that receives the patch.
        regions: Region indices of the phrase, as in `Span.regions`.
        vocabulary: Name of the vocabulary of the data set.
        writing: How its reports count; answers without a count need none.
        known: Regions of the image's label: they count even where an earlier edit of the sentence
            (PosAug before mixing) has taken their phrases away.
    """
    return _conjoin(text, tuple(regions), vocabulary, writing, tuple(known))


@lru_cache(maxsize=16384)  # few sentences meet few phrases many times
def _conjoin(
    text: str,
    regions: tuple[int, ...],
    name: str,
    writing: Writing | None,
    known: tuple[int, ...],
) -> str:
    words = look_up(name)
    named = {i for span in find(text, name) for i in span.regions}
    fresh = sorted(set(regions) - named)
    if words.organ is None:
        return _append(text, [words.cells[i].phrase for i in fresh])
    writing = _needed(writing, name)
    if fresh:
        text = _join(text, fresh, writing.whole)
    union = named | set(regions)
    text = _update_header(text, union | set(known), writing, more=1)
    if _named(text) != union:  # phrases too odd to be amended one by one
        text = _rewrite(text, LUNGS.phrase(union, writing.whole))
    return text


def restate(
    text: str,
    regions: Sequence[int],
    vocabulary: str,
    writing: Writing | None,
    *,
    lesions: int | None = None,
) -> str:
    """The sentence with its positions said anew: it names exactly these regions.

    Laterality and number follow. What cannot be amended is written as a new caption.

    Args:
        text: The sentence of the image that receives cells of another one.
        regions: Region indices of the mixed label, at least one.
        vocabulary: Name of the vocabulary of the data set.
        writing: How its reports count; answers without a count need none.
        lesions: The number to write where the reports count lesions.
    """
    return _restate(text, tuple(regions), vocabulary, writing, lesions)


@lru_cache(maxsize=65536)
def _restate(
    text: str, regions: tuple[int, ...], name: str, writing: Writing | None, lesions: int | None
) -> str:
    words, marked = look_up(name), set(regions)
    if {i for span in find(text, name) for i in span.regions} == marked:
        return text
    if words.organ is None:
        phrases = [words.cells[i].phrase for i in sorted(marked)]
        new = _append(remove(text, name), phrases)
        if {i for span in find(new, name) for i in span.regions} == marked:
            return new
        return _append("", phrases).strip()
    writing = _needed(writing, name)
    if find(text, name) or blanks(text, words):
        new = _rewrite(text, LUNGS.phrase(marked, writing.whole))
    else:
        new = _join(text, sorted(marked), writing.whole)
    number = len(marked) if lesions is None else lesions
    new = _update_header(new, marked, writing, number=number)
    if _named(new) == marked:
        return new
    return lung_caption([int(i in marked) for i in range(len(words.cells))])


def lesion_count(text: str) -> int | None:
    """The number of infected areas that a lung report states; None if it states none."""
    counted = [t for t in lungs.header(text) if (t.meaning or "").startswith("number ")]
    return max((int((t.meaning or "").split()[1]) for t in counted), default=None)


def _needed(writing: Writing | None, name: str) -> Writing:
    if writing is None:
        raise UserError(f"the vocabulary {name!r} needs `writing` in the data set's options")
    return writing


def append_phrase(text: str, phrase: str, vocabulary: str) -> str:
    """The sentence with "and phrase" after its first phrase and nothing else changed.

    This is what the published code does; count and laterality may become untrue.
    """
    named = [span for span in find(text, vocabulary) if span.regions]
    if not named or text[named[0].start : named[0].end].lower() == phrase.lower():
        return text
    return put(text, named[0].end, named[0].end, f" and {phrase}")


def _append(text: str, fresh: Sequence[str]) -> str:
    for phrase in fresh:
        stop = "" if text.rstrip()[-1:] in ".!?" else "."
        text = f"{text.rstrip()}{stop} {added_sentence(phrase)}"
    return text


def _named(text: str) -> set[int]:
    return {i for span in find(text, LUNGS.name) for i in span.regions}


def _join(text: str, fresh: Sequence[int], whole: str | None) -> str:
    # A side that was inferred from the other phrases is written out before these change.
    for span in reversed(find(text, LUNGS.name)):
        if span.regions and not span.sides:
            text = put(text, span.start, span.end, LUNGS.phrase(span.regions, whole))
    for side in LUNGS.sides:
        added = [i for i in fresh if LUNGS.cells[i].side == side]
        if added:
            text = _add_to_side(text, side, added, whole)
    return text


def _add_to_side(text: str, side: str, added: Sequence[int], whole: str | None) -> str:
    spans = find(text, LUNGS.name)
    own = _phrase_of_side(spans, side)
    if own is not None:
        article = re.match(r"the\s+", text[own.start : own.end], flags=re.I)
        start = own.start + (article.end() if article else 0)
        return put(text, start, own.end, LUNGS.phrase({*own.regions, *added}, whole))
    phrase = LUNGS.phrase(added, whole)
    if not spans and not blanks(text, LUNGS):
        stop = re.search(r"[\s.]*$", text)
        at = stop.start() if stop else len(text)
        return f"{text[:at]}, {phrase}{text[at:] or '.'}"
    first, last = _stretch(text)
    leads = spans and spans[0].start == first and side not in spans[0].sides
    if leads and side == LUNGS.sides[0]:
        return put(text, first, first, f"{phrase} and ")
    return put(text, last, last, f" and {phrase}")


def _phrase_of_side(spans: Sequence[Span], side: str) -> Span | None:
    """The phrase to extend: one that names regions of this side only, else an empty slot."""
    named = [s for s in spans if s.regions and s.sides == (side,)]
    slots = [s for s in spans if s.slot and s.sides in ((side,), ())]
    return next(iter(named + slots), None)


def _stretch(text: str) -> tuple[int, int]:
    places = [(s.start, s.end) for s in find(text, LUNGS.name)] + blanks(text, LUNGS)
    return min(s for s, _ in places), max(e for _, e in places)


def _rewrite(text: str, phrase: str) -> str:
    return put(text, *_stretch(text), phrase)


def _update_header(
    text: str, union: set[int], writing: Writing, *, more: int = 0, number: int | None = None
) -> str:
    """Bring laterality, number and "area(s)" in line with the regions.

    Args:
        text: A lung report.
        union: The regions that it names.
        writing: How the reports count.
        more: Lesions that have come, where lesions are counted.
        number: The number of lesions, where it is known.
    """
    tokens = lungs.header(text)
    changes = _new_count(text, tokens, len(union), writing, more=more, number=number)
    bilateral = len({LUNGS.cells[i].side for i in union}) > 1
    word = "bilateral" if bilateral else "unilateral"
    said = {"unilateral", "bilateral"} if number is not None else {"unilateral"}
    for token, after in itertools.pairwise(tokens):
        absent = token.meaning == "no" and after.meaning in ("pulmonary", "infection")
        wrong = token.meaning in said and token.meaning != word and (bilateral or len(said) > 1)
        if absent or wrong:
            new = word.capitalize() if text[token.start].isupper() else word
            changes.append((token.start, token.end, new))
    for start, end, new in sorted(changes, reverse=True):
        text = put(text, start, end, new)
    return text


def _new_count(
    text: str,
    tokens: Sequence[Token],
    regions: int,
    writing: Writing,
    *,
    more: int,
    number: int | None,
) -> list[tuple[int, int, str]]:
    """What to write over the number and over "area(s)", if the count changes."""
    counted = [t for t in tokens if (t.meaning or "").startswith("number ")]
    areas = [t for t in tokens if t.meaning == "area"]
    if not counted or not areas:
        return []
    old = max(int((t.meaning or "").split()[1]) for t in counted)  # "two one infected area"
    lesions = old + more if number is None else number
    new = regions if writing.count == "regions" else lesions
    if writing.cap is not None:
        new = min(new, max(writing.cap, old))
    if new == old:
        return []
    numeral = NUMBERS[new] if new < len(NUMBERS) else str(new)
    area = "area" if new == 1 and not writing.always_plural else "areas"
    changes = [(counted[0].start, counted[-1].end, numeral)]
    if text[areas[-1].start : areas[-1].end].lower() != area:
        changes.append((areas[-1].start, areas[-1].end, area))
    return changes
