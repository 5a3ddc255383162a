"""Scores of the shape of a mask, beside pixel counts: boundary (NSD, HD95) and lesion-wise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from semimedref.errors import UserError
from semimedref.lesions import CONNECTIVITY, count_lesions
from semimedref.surface import surface_scores

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

COLUMNS = ("nsd", "hd95", "lesions", "lesions_found", "lesions_false")  # of per_image.csv


@dataclass(frozen=True)
class MaskScores:
    """What counts as near, and as found.

    Args:
        tolerance: of NSD, as a share of the image side.
        overlap: share of a lesion that makes it found.
        connectivity: 4 or 8 neighbors make pixels one lesion.
    """

    tolerance: float
    overlap: float
    connectivity: int

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if not 0 <= self.tolerance < 1:
            raise UserError(f"scores.tolerance={self.tolerance}: expected a share of the side")
        if not 0 <= self.overlap <= 1:
            raise UserError(f"scores.overlap={self.overlap}: expected a share from 0 to 1")
        if self.connectivity not in CONNECTIVITY:
            raise UserError(f"scores.connectivity={self.connectivity}: expected 4 or 8")

    def measure(self, predicted: Bools, true: Bools) -> Floats:
        """The columns ``COLUMNS`` (B, 5) of masks (B, H, W)."""
        tolerance = self.tolerance * max(true.shape[1:])
        surface = surface_scores(predicted, true, tolerance=tolerance)
        lesions = count_lesions(
            predicted, true, overlap=self.overlap, connectivity=self.connectivity
        )
        return np.concatenate([surface, lesions], axis=1)

    @staticmethod
    def summarize(table: Floats) -> dict[str, float]:
        """Scores of a set from the rows of ``measure``.

        NSD and HD95 are means over images, HD95 over those where it has a value; the share of the
        others is ``hd95_undefined``. Lesions are pooled over the set. What has no value is NaN.
        """
        nsd, hd95, lesions, found, false = table.T
        known = hd95[np.isfinite(hd95)]
        all_lesions, hits, wrong = (float(column.sum()) for column in (lesions, found, false))
        return {
            "nsd": float(nsd.mean()),
            "hd95": float(known.mean()) if len(known) else float("nan"),
            "hd95_undefined": 1 - len(known) / len(hd95),
            "lesion_recall": _ratio(hits, all_lesions),
            "lesion_precision": _ratio(hits, hits + wrong),
            "lesion_f1": _ratio(2 * hits, all_lesions + hits + wrong),
        }


def _ratio(part: float, whole: float) -> float:
    """A share; of nothing it is 1: nothing was missed, nothing invented."""
    return part / whole if whole else 1.0
