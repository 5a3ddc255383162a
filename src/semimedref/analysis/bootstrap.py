"""Intervals of an analysis: whole patients are drawn, as for the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from semimedref.results.significance import draw_patients

Floats = NDArray[np.float64]

REPLICATES = 2_000
SEED = 0  # of the draws
_CHUNK = 500  # replicates at once
_LEVEL = (2.5, 97.5)  # percentiles of a 95 % interval


def interval(
    columns: Floats, patients: Sequence[str], statistic: Callable[[Floats], Floats]
) -> tuple[float, float]:
    """95 % percentile interval of a function of column sums, patients drawn with replacement.

    Args:
        columns: (N, K), one row an image.
        patients: of every image.
        statistic: sums (R, K) -> values (R,).
    """
    _, cluster = np.unique(np.asarray(patients), return_inverse=True)
    sums = np.zeros((int(cluster.max()) + 1, columns.shape[1]))
    np.add.at(sums, cluster, columns)
    rng = np.random.default_rng(SEED)
    values = [
        statistic(draw_patients(rng, min(_CHUNK, REPLICATES - start), len(sums)) @ sums)
        for start in range(0, REPLICATES, _CHUNK)
    ]
    low, high = np.nanpercentile(np.concatenate(values), _LEVEL)
    return float(low), float(high)


def mean_interval(values: Floats, patients: Sequence[str]) -> tuple[float, float]:
    """95 % interval of the mean over images."""
    columns = np.stack([values, np.ones(len(values))], axis=1)
    return interval(columns, patients, lambda sums: sums[:, 0] / sums[:, 1])
