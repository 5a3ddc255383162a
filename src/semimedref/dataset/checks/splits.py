"""Splits without an image: a run needs all three, a partition only the training images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from semimedref.dataset.case import SPLITS, Case, Problem

_FIX = "a run needs images of all three splits: train, valid and test"


def empty_splits(cases: Sequence[Case]) -> Iterator[Problem]:
    """One error for each split that has no case."""
    for name in SPLITS:
        if not any(case.split == name for case in cases):
            yield Problem("split has no usable row", name, _FIX, about="annotation")
