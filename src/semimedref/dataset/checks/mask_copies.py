"""Several files for one mask: byte-identical copies are one file, others are an error."""

from __future__ import annotations

import filecmp
from collections.abc import Iterable, Iterator

from semimedref.dataset.annotate import two_files
from semimedref.dataset.case import Case, Problem


def differing_masks(cases: Iterable[Case]) -> Iterator[Problem]:
    """Masks of which another file says something else; only of these cases are masks opened."""
    for case in cases:
        for other in case.mask_copies:
            if case.mask and not filecmp.cmp(case.mask, other, shallow=False):
                yield two_files("mask", f"{case.id}: {other.parent.name}/{other.name}")
