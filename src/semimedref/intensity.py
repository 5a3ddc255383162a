"""How the gray values of an image become what a network was made for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_FLAT = 1e-6  # rounding leaves a flat image a deviation of about 1e-8
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


def standardize(image: Tensor, *, by: Tensor | None = None) -> Tensor:
    """Per-image z-score with the population standard deviation; a flat image becomes about zero.

    Mean and deviation are the image's own, or those of the images ``by``.
    """
    of = image if by is None else by
    mean = of.mean(dim=(1, 2, 3), keepdim=True)
    centered = of - mean
    std = centered.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()  # std() is slow on a CPU
    std = torch.where(std > _FLAT, std, torch.ones_like(std))
    return (centered if by is None else image - mean) / std


def imagenet(image: Tensor) -> Tensor:
    """ImageNet's mean and deviation of each color: gray (B, 1, H, W) becomes (B, 3, H, W)."""
    colors = zip(_IMAGENET_MEAN, _IMAGENET_STD, strict=True)
    return torch.cat([(image - mean) / std for mean, std in colors], dim=1)


def unit(image: Tensor) -> Tensor:
    """Gray values in [0, 1], as they are."""
    return image


NORMALIZATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "z_score": standardize,
    "imagenet": imagenet,
    "unit": unit,
}
