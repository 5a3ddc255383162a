"""Lesions found, missed and invented: masks compared by their connected components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

CONNECTIVITY = {4: 1, 8: 2}  # neighbors of a pixel, in the words of scipy


def count_lesions(
    predicted: Bools, true: Bools, *, overlap: float, connectivity: int
) -> NDArray[np.int64]:
    """True lesions, those found, and predicted ones that are false (B, 3) of masks (B, H, W).

    A true lesion is found if at least the share ``overlap`` of its pixels is predicted. A
    predicted component is false if less than that share of it is true.
    """
    lesions, covered = _components(true, predicted, overlap, connectivity)
    components, right = _components(predicted, true, overlap, connectivity)
    return np.stack([lesions, covered, components - right], axis=1)


def _components(
    masks: Bools, other: Bools, overlap: float, connectivity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Components of each mask (B,), and those of which enough lies in the other mask (B,)."""
    from scipy import ndimage

    within = np.zeros((3, 3, 3), dtype=bool)  # neighbors in the same image, never in the next
    within[1] = ndimage.generate_binary_structure(2, CONNECTIVITY[connectivity])
    labels, number = ndimage.label(masks, within)
    sizes = np.bincount(labels.ravel(), minlength=number + 1)[1:]
    shared = np.bincount(labels[other], minlength=number + 1)[1:]
    enough = (shared > 0) & (shared >= overlap * sizes)
    image = np.array([place[0].start for place in ndimage.find_objects(labels)], dtype=np.intp)
    total = np.bincount(image, minlength=len(masks))
    return total, np.bincount(image[enough], minlength=len(masks))
