"""Scores of a test set that are functions of sums over its images, so that patients can be drawn.

Dice and mIoU pool pixels, lesion F1 pools lesions, NSD and HD95 are means over images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """One score of a set.

    Attributes:
        name: as it is called in results.
        label: as it is printed.
        needs: the columns of ``per_image.csv`` that it is made of.
        parts: per-image numbers (N, K) whose sums decide the score.
        score: sums (..., K) -> values (...).
        percent: whether it is a fraction that is printed in percent.
    """

    name: str
    label: str
    needs: tuple[str, ...]
    parts: Callable[[pd.DataFrame], Floats]
    score: Callable[[Floats], Floats]
    percent: bool = True


def global_dice(sums: Floats) -> Floats:
    """Dice of summed counts (..., 3), TP, FP, FN; nothing to find and nothing found is 1."""
    overlap = 2.0 * sums[..., 0]
    both = overlap + sums[..., 1] + sums[..., 2]
    return np.divide(overlap, both, out=np.ones_like(both), where=both > 0)


def global_miou(sums: Floats) -> Floats:
    """IoU of summed counts (..., 3), TP, FP, FN; nothing to find and nothing found is 1."""
    union = sums.sum(axis=-1)
    return np.asarray(np.divide(sums[..., 0], union, out=np.ones_like(union), where=union > 0))


def mean(sums: Floats) -> Floats:
    """Mean from sums (..., 2) of values and of how many there are; of none it is undefined."""
    number = sums[..., 1]
    return np.divide(sums[..., 0], number, out=np.full_like(number, np.nan), where=number > 0)


def mean_of(column: str, *, label: str | None = None, percent: bool = False) -> Measure:
    """The mean over images of any numeric column; images without a value are left out."""
    return Measure(column, label or column, (column,), partial(_value, column), mean, percent)


def _columns(names: Sequence[str], frame: pd.DataFrame) -> Floats:
    return np.asarray(frame[list(names)].to_numpy(), dtype=np.float64)


def _value(column: str, frame: pd.DataFrame) -> Floats:
    values = np.asarray(frame[column].to_numpy(), dtype=np.float64)
    known = np.isfinite(values)
    return np.stack([np.where(known, values, 0.0), known], axis=1)


def _lesions(frame: pd.DataFrame) -> Floats:
    lesions, found, false = _columns(_LESIONS, frame).T
    return np.stack([found, false, lesions - found], axis=1)


_COUNTS = ("tp", "fp", "fn")
_LESIONS = ("lesions", "lesions_found", "lesions_false")

_PIXELS = partial(_columns, _COUNTS)  # one object: measures with the same parts share their sums

DICE = Measure("dice", "Dice", _COUNTS, _PIXELS, global_dice)
MIOU = Measure("miou", "mIoU", _COUNTS, _PIXELS, global_miou)
NSD = mean_of("nsd", label="NSD", percent=True)
HD95 = mean_of("hd95", label="HD95, px")
LESION_F1 = Measure("lesion_f1", "lesion F1", _LESIONS, _lesions, global_dice)

PAPER = (DICE, MIOU)  # what the paper tests
KNOWN = (*PAPER, NSD, HD95, LESION_F1)
