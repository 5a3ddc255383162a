"""The segmentation loss of the paper: Dice plus binary cross-entropy, on logits."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def dice_loss(logits: Tensor, target: Tensor, *, smooth: float) -> Tensor:
    """Soft Dice loss of each image, averaged over the batch (sums over all pixels, no squares)."""
    p, g = logits.sigmoid().flatten(1), target.flatten(1)
    overlap = (p * g).sum(1)
    return (1 - (2 * overlap + smooth) / (p.sum(1) + g.sum(1) + smooth)).mean()


class SegmentationLoss:
    """L_DiceCE of Eqs. sup and unsup.

    ``cross_entropy: false`` is what the authors' library versions in fact computed.
    """

    def __init__(self, *, cross_entropy: bool, smooth: float) -> None:
        self.cross_entropy, self.smooth = cross_entropy, smooth

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (B, 1, H, W) against a target of the same shape in [0, 1]."""
        logits = logits.float()
        loss = dice_loss(logits, target, smooth=self.smooth)
        if self.cross_entropy:
            loss = loss + F.binary_cross_entropy_with_logits(logits, target)
        return loss
