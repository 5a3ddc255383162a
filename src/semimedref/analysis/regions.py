"""The regions of a vocabulary as pixels."""

from __future__ import annotations

import numpy as np

from semimedref.text.spans import phrases
from semimedref.text.vocabulary import vocabulary as look_up


def region_masks(vocabulary: str, height: int, width: int) -> np.ndarray:
    """The box of every region as a mask (K, H, W), bool."""
    boxes = look_up(vocabulary).boxes
    masks = np.zeros((len(boxes), height, width), dtype=bool)
    for mask, box in zip(masks, boxes, strict=True):
        top, bottom, left, right = box.pixels(height, width)
        mask[top:bottom, left:right] = True
    return masks


def coarse_region(text: str, vocabulary: str, height: int, width: int) -> np.ndarray:
    """Where a sentence points to (H, W), bool: the box around each of its phrases.

    "Upper lower left lung" is the whole left half, as T-PatchMix reads it.
    """
    masks = region_masks(vocabulary, height, width)
    region = np.zeros((height, width), dtype=bool)
    for phrase in phrases(text, vocabulary):
        if phrase.regions:
            inside = masks[list(phrase.regions)].any(0)
            rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
            region[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    return region
