"""Multi-label losses of position predictors."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


class PositionLoss:
    """Cross-entropy, asymmetric focal loss and the number of regions, weighted.

    The paper says "BCE-based"; these are the terms of the authors' release.

    Args:
        weight_bce: of the binary cross-entropy.
        weight_focal: of the asymmetric focal loss.
        weight_count: of the smooth L1 distance between the shares of named regions.
        gamma_positive: focusing exponent where the region is named.
        gamma_negative: focusing exponent where it is not.
    """

    def __init__(
        self,
        *,
        weight_bce: float,
        weight_focal: float,
        weight_count: float,
        gamma_positive: float,
        gamma_negative: float,
    ) -> None:
        self.weight_bce, self.weight_focal = weight_bce, weight_focal
        self.weight_count = weight_count
        self.gamma_positive, self.gamma_negative = gamma_positive, gamma_negative

    def __call__(self, logits: Tensor, q: Tensor) -> Tensor:
        """Loss of logits (B, K) against multi-hot positions q (B, K)."""
        logits, q = logits.float(), q.float()
        gammas = {"gamma_positive": self.gamma_positive, "gamma_negative": self.gamma_negative}
        return (
            self.weight_bce * F.binary_cross_entropy_with_logits(logits, q)
            + self.weight_focal * asymmetric_focal(logits, q, **gammas)
            + self.weight_count * count_distance(logits, q)
        )


def asymmetric_focal(
    logits: Tensor, q: Tensor, *, gamma_positive: float, gamma_negative: float
) -> Tensor:
    """Mean of -(1-p)^g+ log p where q = 1 and -p^g- log(1-p) where q = 0 (Ridnik et al., 2021)."""
    p = logits.sigmoid()
    positive = q * (1 - p) ** gamma_positive * F.logsigmoid(logits)
    negative = (1 - q) * p**gamma_negative * F.logsigmoid(-logits)
    return -(positive + negative).mean()


def count_distance(logits: Tensor, q: Tensor) -> Tensor:
    """Smooth L1 between sum(p) / K and sum(q) / K, mean over images."""
    return F.smooth_l1_loss(logits.sigmoid().mean(1), q.mean(1))


def positive_weight(q: Tensor, *, lowest: float, highest: float) -> Tensor:
    """Negatives over positives of each region (K,) in the training labels q (N, K), clipped.

    For ``pos_weight`` of a binary cross-entropy, in the study of predictors on their own.
    """
    positive = q.float().sum(0)
    return ((len(q) - positive) / positive.clamp(min=1)).clamp(lowest, highest)
