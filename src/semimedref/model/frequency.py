"""Split images into low and high frequencies by one level of the Haar wavelet (FMISeg)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.intensity import standardize

_LEVELS = 255  # of 8 bits
_FLAT = 1e-5  # a band of a normalized image that varies by less is flat up to rounding
_ROUNDING = 2e-4  # of a level: a whole level must not be truncated to the one below


def low_and_high(image: Tensor, *, quantize: bool) -> tuple[Tensor, Tensor]:
    """Return the low and the high frequencies of images (B, 1, H, W), each of the same shape.

    Both are scaled to [0, 1] (or 8 bits), enlarged bicubically to the image's side and z-scored.
    Scaling makes them independent of an image's brightness and contrast: a z-scored image gives
    what its gray values give.

    Args:
        image: gray or z-scored values; a flat image gives zeros.
        quantize: truncate to 8 bits before enlarging, as files of the two images do.
    """
    approximation, *details = haar(image.float())
    low = _scaled(approximation)
    high = _scaled(sum(_scaled(band) for band in details))
    if quantize:
        low, high = ((x * _LEVELS + _ROUNDING).floor() for x in (low, high))
    size = image.shape[-2:]
    enlarged = (
        F.interpolate(x, size=size, mode="bicubic", align_corners=False) for x in (low, high)
    )
    low, high = map(standardize, enlarged)
    return low, high


def haar(image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return LL, LH, HL and HH (B, 1, H / 2, W / 2) of images (B, 1, H, W).

    An odd side is made even by repeating its last row or column: symmetric padding.
    """
    height, width = image.shape[-2:]
    if height % 2 or width % 2:
        image = F.pad(image, (0, width % 2, 0, height % 2), mode="replicate")
    top, bottom = image[..., ::2, :], image[..., 1::2, :]
    a, b = top[..., ::2], top[..., 1::2]
    c, d = bottom[..., ::2], bottom[..., 1::2]
    return (a + b + c + d) / 2, (a + b - c - d) / 2, (a - b + c - d) / 2, (a - b - c + d) / 2


def _scaled(x: Tensor) -> Tensor:
    """Scale each image to [0, 1]; a flat one becomes zero."""
    least = x.amin(dim=(1, 2, 3), keepdim=True)
    extent = x.amax(dim=(1, 2, 3), keepdim=True) - least
    return torch.where(extent > _FLAT, (x - least) / extent.clamp(min=_FLAT), torch.zeros_like(x))
