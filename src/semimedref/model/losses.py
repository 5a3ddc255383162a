"""Segmentation losses on logits: the Dice that all share, and those of single networks."""

import torch.nn.functional as F
from torch import Tensor

_SMOOTH = 1e-5
_NOTHING = 1e-12  # where a class has no pixel, its sum is zero, too


def dice(
    logits: Tensor, target: Tensor, smooth: float = _SMOOTH, *, weight: Tensor | None = None
) -> Tensor:
    """Soft Dice loss of each image, averaged over the batch (sums over all pixels, no squares).

    Args:
        logits: (B, 1, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
        smooth: added to both parts of the ratio.
        weight: (B, 1, H, W), how much each pixel counts; None: all alike.
    """
    p, g = logits.float().sigmoid().flatten(1), target.float().flatten(1)
    if weight is not None:
        p, g = p * weight.flatten(1), g * weight.flatten(1)
    overlap = (p * g).sum(1)
    return (1 - (2 * overlap + smooth) / (p.sum(1) + g.sum(1) + smooth)).mean()


def batch_dice(logits: Tensor, target: Tensor) -> Tensor:
    """Soft Dice loss whose sums run over all pixels of all images of a batch.

    Args:
        logits: (B, 1, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
    """
    p, g = logits.float().sigmoid(), target.float()
    return 1 - (2 * (p * g).sum() + _SMOOTH) / (p.sum() + g.sum() + _SMOOTH)


def batch_dice_bce(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy and the Dice of the whole batch (TextMatch)."""
    entropy = F.binary_cross_entropy_with_logits(logits.float(), target.float())
    return entropy + batch_dice(logits, target)


def balanced_dice_bce(logits: Tensor, target: Tensor) -> Tensor:
    """Half squared Dice, half cross-entropy in which lesion and background count alike (LViT).

    Either class has its mean over the whole batch, nothing if there is no pixel of it. A soft
    target is the lesion's above one half and the background's below, as released: were it both, by
    its value, a rare lesion would lift every doubtful pixel.

    Args:
        logits: (B, 1, H, W), of any float type.
        target: (B, 1, H, W) in [0, 1].
    """
    x, g = logits.float().flatten(1), target.float().flatten(1)
    each = F.binary_cross_entropy_with_logits(x, g, reduction="none")
    lesion, background = (g > 0.5).float(), (g < 0.5).float()
    halves = [(c * each).sum() / c.sum().clamp(min=_NOTHING) for c in (lesion, background)]
    p = x.sigmoid()
    smooth = 4 * _SMOOTH  # published: 1e-5 where both maps are halved before they are squared
    sizes = p.square().sum(1) + g.square().sum(1)
    overlap = (1 - (2 * (p * g).sum(1) + smooth) / (sizes + smooth)).mean()
    return 0.5 * overlap + 0.5 * (0.5 * halves[0] + 0.5 * halves[1])


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
