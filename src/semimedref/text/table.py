"""Closed sets of sentences, so that the features of a frozen text encoder can be cached."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from semimedref.text.caption import lung_caption
from semimedref.text.spans import EDITS, Edit, edit, phrases, remove
from semimedref.text.vocabulary import LUNGS


def caption_of(position: Sequence[int]) -> str:
    """The one sentence of a caption-like data set for a position label."""
    return lung_caption(position)


def captions() -> list[str]:
    """The captions of all position labels but the empty one, in counting order of the labels."""
    labels = itertools.product((0, 1), repeat=len(LUNGS.regions))
    return [caption_of(label) for label in labels if any(label)]


def edits_of(text: str, vocabulary: str) -> list[str]:
    """Every sentence that PosAug can make of this one, itself first.

    Entry `edit_index(edits)` is the sentence in which phrase k was edited by `edits[k]`.
    """
    choices = itertools.product(EDITS, repeat=len(phrases(text, vocabulary)))
    return [edit(text, vocabulary, chosen) for chosen in choices]


def edit_index(edits: Sequence[Edit]) -> int:
    """Where `edits_of` holds the sentence with these edits of its phrases."""
    index = 0
    for how in edits:
        index = index * len(EDITS) + EDITS.index(how)
    return index


def closure(texts: Iterable[str], vocabulary: str, *, removed: bool) -> list[str]:
    """All distinct sentences that PosAug, and removal if asked for, can make of the texts."""
    reachable: dict[str, None] = {}
    for text in texts:
        made = edits_of(text, vocabulary)
        reachable |= dict.fromkeys(made)
        if removed:
            reachable |= dict.fromkeys(remove(m, vocabulary) for m in made)
    return list(reachable)
