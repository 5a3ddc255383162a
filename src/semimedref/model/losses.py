"""Segmentation losses on logits: the Dice that all share, and those of single networks."""

import torch.nn.functional as F
from torch import Tensor

_SMOOTH = 1e-5
_NOTHING = 1e-12  # where a class has no pixel, its sum is zero, too


def dice(logits: Tensor, target: Tensor, smooth: float = _SMOOTH) -> Tensor:
    """Soft Dice loss of each image, averaged over the batch (sums over all pixels, no squares).

    Args:
        logits: (B, 1, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
        smooth: added to both parts of the ratio.
    """
    p, g = logits.float().sigmoid().flatten(1), target.float().flatten(1)
    overlap = (p * g).sum(1)
    return (1 - (2 * overlap + smooth) / (p.sum(1) + g.sum(1) + smooth)).mean()


def balanced_dice_bce(logits: Tensor, target: Tensor) -> Tensor:
    """Half squared Dice, half cross-entropy in which lesion and background count alike (LViT).

    Either class has its mean over the whole batch, nothing if there is no pixel of it. A soft
    target belongs to both classes, by its value; the release rounds it to decide for one.

    Args:
        logits: (B, 1, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
    """
    x, g = logits.float().flatten(1), target.float().flatten(1)
    lesion = (g * F.softplus(-x)).sum() / g.sum().clamp(min=_NOTHING)
    background = ((1 - g) * F.softplus(x)).sum() / (1 - g).sum().clamp(min=_NOTHING)
    p = x.sigmoid()
    smooth = 4 * _SMOOTH  # published: 1e-5 where both maps are halved before they are squared
    sizes = p.square().sum(1) + g.square().sum(1)
    overlap = (1 - (2 * (p * g).sum(1) + smooth) / (sizes + smooth)).mean()
    return 0.5 * overlap + 0.5 * (0.5 * lesion + 0.5 * background)


def channel_dice_ce(logits: Tensor, target: Tensor) -> Tensor:
    """Dice of each channel against the same mask, and a cross-entropy over channels (TextMoE).

    The cross-entropy takes sigmoid probabilities for scores and a repeated mask for classes, as
    published: of equal channels it is a constant, so it only makes channels alike.

    Args:
        logits: (B, C, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
    """
    logits, target = logits.float(), target.float()
    masks = target.expand_as(logits)
    overlap = dice(logits.flatten(0, 1), masks.flatten(0, 1))  # a mean over images and channels
    scores = logits.sigmoid().log_softmax(1)
    return overlap - (masks * scores).sum(1).mean()
