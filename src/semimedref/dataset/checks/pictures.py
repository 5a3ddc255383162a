"""One look at the image and the mask of every case: can they be read, and do they fit?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semimedref.dataset.case import Case, Level, Problem
from semimedref.dataset.checks.sides import text_against_mask
from semimedref.dataset.checks.sizes import Size, in_words
from semimedref.dataset.parallel import each
from semimedref.dataset.pixels import PixelError, binarized, read_image
from semimedref.text.vocabulary import Vocabulary

_COPY = "copy the file again from its source"


@dataclass(frozen=True)
class Look:
    """What was seen."""

    size: Size | None  # of the image; None: it cannot be read
    problems: tuple[Problem, ...]


def look_at(
    cases: Sequence[Case], *, mask_rule: str, vocabulary: Vocabulary, label: str, options: str
) -> list[Look]:
    """Decode every picture on all cores, one look for each case.

    Args:
        cases: of all splits.
        mask_rule: what is foreground.
        vocabulary: of the positions.
        label: of the progress.
        options: what chooses the data set on the command line.
    """

    def look(case: Case) -> Look:
        size, problems = _image(case)
        mask, found = _mask(case, size, mask_rule)
        if mask is not None:
            found += text_against_mask(case, mask, vocabulary, options=options)
        return Look(size, (*problems, *found))

    return list(each(look, cases, label=label))


def _image(case: Case) -> tuple[Size | None, list[Problem]]:
    pixels, problems = _read(case, "image", case.image)
    return (None if pixels is None else (pixels.shape[0], pixels.shape[1])), problems


def _mask(case: Case, size: Size | None, mask_rule: str) -> tuple[np.ndarray | None, list[Problem]]:
    """A mask of 0 and 1 that has a lesion, or None."""
    gray, problems = _read(case, "mask", case.mask)
    if gray is None:
        return None, problems
    if size is not None and gray.shape != size:
        found = f"{case.id} (mask {in_words(gray.shape)}, image {in_words(size)})"
        return None, [Problem("mask has another size than its image", found, _COPY)]
    problems += _values(case, gray, mask_rule)
    inside = binarized(gray, mask_rule)
    if not inside.any():
        fix = "look at it: an image without a lesion teaches that its text names nothing"
        return None, [*problems, Problem("mask is empty", case.id, fix, "warning")]
    return inside, problems


def _read(case: Case, what: str, path: Path | None) -> tuple[np.ndarray | None, list[Problem]]:
    if path is None:
        return None, []  # the annotation's problems say so
    try:
        return read_image(path), []
    except PixelError as error:
        return None, [Problem(f"{what} {error}", case.id, _COPY)]


def _values(case: Case, gray: np.ndarray, mask_rule: str) -> Iterator[Problem]:
    """Gray values are cut at one half in silence; a rule for 255 alone would lose them."""
    values = np.flatnonzero(np.bincount(gray.ravel(), minlength=256)).tolist()
    if set(values) <= {0, 255} or set(values) <= {0, 1}:
        return
    strict = mask_rule == "equals_255"
    level: Level = "warning" if strict else "note"
    fix = (
        "only 255 counts as lesion; dataset.transform.mask_rule=above_half takes what is above 127"
        if strict
        else "nothing to do: what is above 127 counts as lesion"
    )
    yield Problem("mask holds gray values", f"{case.id} ({len(values)} values)", fix, level)
