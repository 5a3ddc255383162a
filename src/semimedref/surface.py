"""How far two outlines are apart: normalized surface distance and the 95 % Hausdorff distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

_HD_PERCENT = 95


def edges(masks: Bools) -> Bools:
    """The outline of each mask (B, H, W): its pixels that touch background, or the image's edge.

    Neighbors are those above, below, left and right.
    """
    padded = np.pad(masks, ((0, 0), (1, 1), (1, 1)))
    above, below = padded[:, :-2, 1:-1], padded[:, 2:, 1:-1]
    left, right = padded[:, 1:-1, :-2], padded[:, 1:-1, 2:]
    return np.asarray(masks & ~(above & below & left & right))


def surface_scores(predicted: Bools, true: Bools, *, tolerance: float) -> Floats:
    """NSD and HD95 (B, 2) of masks (B, H, W), in pixels.

    NSD is the share of both outlines that lies within ``tolerance`` of the other one. HD95 is the
    larger of the two 95th percentiles of distances from one outline to the other. Two empty masks
    agree: NSD 1, HD95 0. Where one alone is empty, NSD is 0 and HD95 has no value (NaN).
    """
    outlines = edges(predicted), edges(true)
    found = [
        _pair(np.argwhere(a), np.argwhere(b), tolerance) for a, b in zip(*outlines, strict=True)
    ]
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def _pair(
    first: NDArray[np.intp], second: NDArray[np.intp], tolerance: float
) -> tuple[float, float]:
    """NSD and HD95 of two outlines, given by their pixels (N, 2)."""
    if not len(first) and not len(second):
        return 1.0, 0.0
    if not len(first) or not len(second):
        return 0.0, float("nan")
    there, back = _distances(first, second), _distances(second, first)
    near = np.count_nonzero(there <= tolerance) + np.count_nonzero(back <= tolerance)
    far = max(np.percentile(there, _HD_PERCENT), np.percentile(back, _HD_PERCENT))
    return near / (len(there) + len(back)), float(far)


def _distances(start: NDArray[np.intp], end: NDArray[np.intp]) -> Floats:
    """From each pixel to the nearest of the others; by a tree, as outlines are thin."""
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(end).query(start)[0])
