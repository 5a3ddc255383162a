"""The segmentation loss of the paper: Dice plus binary cross-entropy, on logits."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from semimedref.model.losses import dice


class SegmentationLoss:
    """L_DiceCE of Eqs. sup and unsup.

    ``cross_entropy: false`` is what the authors' library versions in fact computed.
    """

    def __init__(self, *, cross_entropy: bool, smooth: float) -> None:
        self.cross_entropy, self.smooth = cross_entropy, smooth

    def __call__(self, logits: Tensor, target: Tensor, *, weight: Tensor | None = None) -> Tensor:
        """Loss of logits (B, 1, H, W) against a target of the same shape in [0, 1].

        A ``weight`` of the same shape, 0 or 1, says which pixels count.
        """
        logits = logits.float()
        loss = dice(logits, target, self.smooth, weight=weight)
        if not self.cross_entropy:
            return loss
        if weight is None:
            return loss + F.binary_cross_entropy_with_logits(logits, target)
        each = F.binary_cross_entropy_with_logits(logits, target, weight=weight, reduction="sum")
        return loss + each / weight.sum().clamp(min=1)
