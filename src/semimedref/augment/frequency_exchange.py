"""Frequencies of one image in the place of another's (TextMoE's content regularization)."""

from __future__ import annotations

import torch
from torch import Tensor

KINDS = ("amplitude", "shifted", "unshifted")
_NOTHING = 1e-12


def frequency_exchange(image: Tensor, donor: Tensor, *, cutoff: float, kind: str) -> Tensor:
    """The image with frequencies within ``cutoff`` taken from its donor.

    Args:
        image: (B, C, H, W).
        donor: of the same shape.
        cutoff: distance from zero frequency, in whole waves a side.
        kind: ``amplitude``: the donor's amplitudes of low frequencies with the image's own phases,
            so that shapes stay where they are. ``shifted``: low frequencies as a whole, which makes
            most of the picture the donor's. ``unshifted``: as released, where the disc lies around
            the highest frequencies instead, so that hardly anything changes.
    """
    disc = _disc(image, cutoff, around_highest=kind == "unshifted")
    ours, theirs = torch.fft.fft2(image.float()), torch.fft.fft2(donor.float())
    if kind == "amplitude":
        theirs = ours * (theirs.abs() / ours.abs().clamp(min=_NOTHING))
    return torch.fft.ifft2(torch.where(disc, theirs, ours)).real.to(image.dtype)


def _disc(image: Tensor, cutoff: float, *, around_highest: bool) -> Tensor:
    """Which bins (H, W) of an unshifted spectrum lie within the cutoff."""

    def axis(n: int) -> Tensor:
        at = torch.arange(n, device=image.device)
        return at - n // 2 if around_highest else torch.minimum(at, n - at)

    y, x = axis(image.shape[-2]), axis(image.shape[-1])
    return (y.square()[:, None] + x.square()[None]).to(torch.float32) <= cutoff**2
