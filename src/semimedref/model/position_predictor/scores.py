"""Scores of predicted positions: mAP, macro AUROC and macro F1, all without a learning library."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata


def position_scores(
    probability: ArrayLike, position: ArrayLike, *, threshold: float
) -> dict[str, float]:
    """``map``, ``auroc`` and ``f1``: means over the regions for which they are defined.

    Args:
        probability: (N, K) predicted probabilities.
        position: (N, K) truth, 0 or 1.
        threshold: for F1; a region is predicted at or above it.
    """
    p, q = np.asarray(probability, dtype=np.float64), np.asarray(position) > 0.5
    columns = [(p[:, k], q[:, k]) for k in range(q.shape[1])]
    return {
        "map": _nan_mean([average_precision(*column) for column in columns]),
        "auroc": _nan_mean([auroc(*column) for column in columns]),
        "f1": _nan_mean([f1(score >= threshold, truth) for score, truth in columns]),
    }


def average_precision(score: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Sum over thresholds of (recall gained) x precision; equal scores enter together.

    Not a number without a positive.
    """
    positives = int(truth.sum())
    if not positives:
        return math.nan
    order = np.argsort(-score, kind="stable")
    score, hits = score[order], np.cumsum(truth[order])
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)  # of each group of equals
    gained = np.diff(hits[last], prepend=0) / positives
    return float((gained * hits[last] / (last + 1)).sum())


def auroc(score: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Chance that a positive scores above a negative, ties half; not a number without both."""
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return math.nan
    above = rankdata(score)[truth].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def f1(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """2 TP / (2 TP + FP + FN); not a number where nothing is true and nothing predicted."""
    total = int(predicted.sum()) + int(truth.sum())
    return 2 * int((predicted & truth).sum()) / total if total else math.nan


def _nan_mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
