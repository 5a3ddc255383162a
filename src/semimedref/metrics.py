"""Scores from integer counts: global Dice and mIoU; Dice per image under its own name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

MACRO = "_macro"  # ends the name of a mean over domains
DEFINITION = 1  # raised when a score of the same name would mean something else; in every result


def counts(probability: Tensor, mask: Tensor, *, threshold: float) -> Tensor:
    """True positive, false positive and false negative pixels of each image.

    Args:
        probability: (B, 1, H, W) foreground probability.
        mask: (B, 1, H, W) truth, 0 or 1.
        threshold: a pixel is predicted foreground at or above it.

    Returns:
        (B, 3) int64 tensor with the columns TP, FP, FN, on the device of the input.
    """
    predicted = probability >= threshold
    true = mask > 0.5
    columns = (predicted & true, predicted & ~true, ~predicted & true)
    return _stack([c.flatten(1).sum(1) for c in columns])


def dice(tp: int, fp: int, fn: int) -> float:
    """2 TP / (2 TP + FP + FN); 1 when both masks are empty."""
    total = 2 * tp + fp + fn
    return 2 * tp / total if total else 1.0


def iou(tp: int, fp: int, fn: int) -> float:
    """TP / (TP + FP + FN); 1 when both masks are empty."""
    total = tp + fp + fn
    return tp / total if total else 1.0


def summarize(table: NDArray[np.int64]) -> dict[str, float]:
    """Scores of a whole set from its (N, 3) counts.

    ``dice`` and ``miou`` pool the counts over every pixel of the set (the paper's definition);
    ``dice_per_image`` is the mean over images and another metric.
    """
    tp, fp, fn = (int(v) for v in table.sum(axis=0))
    per_image = [dice(*(int(v) for v in row)) for row in table]
    return {
        "dice": dice(tp, fp, fn),
        "miou": iou(tp, fp, fn),
        "dice_per_image": float(np.mean(per_image)),
    }


def with_domains(
    summarize: Callable[[NDArray[Any]], Mapping[str, float]],
    table: NDArray[Any],
    domains: Sequence[str],
) -> dict[str, float]:
    """Scores of a set, of each domain in it, and their mean over domains.

    ``dice`` stays that of all images together; ``domain/NAME/dice`` is that of one domain and
    ``dice_macro`` the mean of those, in which every domain counts alike. A set of one kind has
    its own scores alone.
    """
    scores = dict(summarize(table))
    if not domains:
        return scores
    of_image = np.array(domains)
    parts = {name: summarize(table[of_image == name]) for name in dict.fromkeys(domains)}
    macro = {f"{k}{MACRO}": float(np.mean([part[k] for part in parts.values()])) for k in scores}
    for name, part in parts.items():
        scores |= {f"domain/{name}/{key}": value for key, value in part.items()}
    return scores | macro


def _stack(columns: list[Tensor]) -> Tensor:
    import torch

    return torch.stack(columns, dim=1)
