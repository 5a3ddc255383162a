"""The words of T-PatchMix: where two sentences allow a patch, and what is said after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semimedref.errors import UserError
from semimedref.text.span import put
from semimedref.text.spans import (
    Span,
    Writing,
    append_phrase,
    conflict,
    conjoin,
    lesion_count,
    phrases,
    restate,
)
from semimedref.text.vocabulary import vocabulary as look_up

REGIONS_FROM = ("donor", "receiver")
CONFLICTS = ("sides", "first_phrases")


@dataclass(frozen=True)
class Place:
    """The regions in which a patch must lie, and the donor's words for what it brings."""

    regions: tuple[int, ...]
    words: str | None


@dataclass(frozen=True)
class MixedText:
    """The paper's rules for the sentences of a pair, and those of the release.

    Attributes:
        vocabulary: regions of the data set's sentences.
        writing: how its sentences count.
        region_from: a random phrase of the ``donor`` says where the patch lies, or the first one of
            the ``receiver`` (release).
        conflict: ``sides`` (one label is left only, the other right only), or ``first_phrases``
            (release), where a bilateral sentence can be in conflict.
        update_count: the mixed sentence is made true, with its count and laterality. False
            (release): the donor's first phrase joins the receiver's; with a patch from anywhere it
            takes its place, with one on a sure pixel nothing changes.
    """

    vocabulary: str
    writing: Writing | None
    region_from: str
    conflict: str
    update_count: bool

    def __post_init__(self) -> None:
        for key, known in (("region_from", REGIONS_FROM), ("conflict", CONFLICTS)):
            if getattr(self, key) not in known:
                raise UserError(
                    f"augment.mixer.{key}={getattr(self, key)} is unknown: "
                    f"expected {' or '.join(known)}"
                )

    def place(
        self, own: str, given: str, labels: tuple[Sequence[int], Sequence[int]], u: float
    ) -> Place | None:
        """Where a patch of the sentence ``given`` may lie in the image of ``own``; None: nowhere.

        Args:
            own: the receiver's sentence.
            given: the donor's sentence.
            labels: their position labels.
            u: chooses the phrase.
        """
        ours, theirs = self._named(own), self._named(given)
        if self._conflict(ours, theirs, labels):
            return None
        if self.region_from == "receiver":
            words = _words(given, theirs[0]) if theirs else None
            return Place(ours[0].regions, words) if ours else None
        if not theirs:
            return None
        phrase = theirs[min(int(u * len(theirs)), len(theirs) - 1)]
        return Place(phrase.regions, _words(given, phrase))

    def placed(self, own: str, place: Place, label: Sequence[int]) -> tuple[str, str]:
        """The sentence without and with a patch at its place; `label` is the receiver's."""
        if self.update_count:
            return own, self._add(own, place.regions, label)
        if place.words is None:
            return own, own
        return own, append_phrase(own, place.words, self.vocabulary)

    def anywhere(
        self, own: str, given: str, label: Sequence[int], *, sure: bool
    ) -> tuple[str, ...]:
        """The sentence without a patch, then those with one whose place the device decides.

        Either one sentence for a patch in each region, or one sentence for all of them.

        Args:
            own: the receiver's sentence.
            given: the donor's sentence.
            label: the receiver's position label.
            sure: whether the patch lies on a pixel where the teacher is sure (prob).
        """
        if self.update_count:
            regions = range(len(look_up(self.vocabulary).cells))
            return own, *(self._add(own, (k,), label) for k in regions)
        ours, theirs = self._named(own), self._named(given)
        if sure or not ours or not theirs:
            return own, own
        return own, put(own, ours[0].start, ours[0].end, _words(given, theirs[0]))

    def exchanged(
        self, own: str, given: str, labels: tuple[Sequence[int], Sequence[int]], cells: set[int]
    ) -> str | None:
        """The sentence after the donor's cells have taken the place of the receiver's.

        Its regions are those of the donor inside the cells, and of the receiver outside. Where
        reports count lesions, each image gives the share of its number that its regions have.

        Args:
            own: the receiver's sentence.
            given: the donor's sentence.
            labels: their position labels.
            cells: region indices that come from the donor.

        Returns:
            The sentence; None if it would name no region.
        """
        words = look_up(self.vocabulary)
        ours, theirs = (set(words.indices(label)) for label in labels)
        stay, come = ours - cells, theirs & cells
        if not stay | come:
            return None
        lesions = None
        if self.writing is not None and self.writing.count == "increment":
            parts = [
                (lesion_count(text) or 0) * len(left) / len(whole) if whole else 0.0
                for text, left, whole in ((own, stay, ours), (given, come, theirs))
            ]
            sides = {words.cells[i].side for i in stay | come}
            lesions = max(len(sides), round(sum(parts)))
        regions = sorted(stay | come)
        return restate(own, regions, self.vocabulary, self.writing, lesions=lesions)

    def _add(self, text: str, regions: Sequence[int], label: Sequence[int]) -> str:
        known = look_up(self.vocabulary).indices(label)
        return conjoin(text, regions, self.vocabulary, self.writing, known=known)

    def _named(self, text: str) -> list[Span]:
        return [phrase for phrase in phrases(text, self.vocabulary) if phrase.regions]

    def _conflict(
        self,
        ours: Sequence[Span],
        theirs: Sequence[Span],
        labels: tuple[Sequence[int], Sequence[int]],
    ) -> bool:
        if self.conflict == "sides":
            return conflict(*labels, self.vocabulary)
        if not ours or not theirs:
            return False
        words = look_up(self.vocabulary)
        first = [words.multi_hot(found[0].regions) for found in (ours, theirs)]
        return conflict(first[0], first[1], self.vocabulary)


def _words(text: str, phrase: Span) -> str:
    return text[phrase.start : phrase.end]
