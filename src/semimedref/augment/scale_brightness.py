"""Mild scaling and brightness of a teacher's view, and the way back (TextMatch)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.errors import UserError

_WHITE = 255.0  # offsets are given in gray values


class ScaleBrightness:
    """Scaled from the upper left corner, then gray values times a gain plus an offset.

    What grows beyond the frame is cut off, what is left free is black.

    Args:
        scale: lowest and highest factor of the size.
        gain: lowest and highest factor of gray values.
        offset: most that is added or taken off, in gray values of 0 to 255.
    """

    draws = 3

    def __init__(self, *, scale: Sequence[float], gain: Sequence[float], offset: float) -> None:
        for key, span in (("scale", scale), ("gain", gain)):
            if len(span) != 2 or not 0 < span[0] <= span[1]:
                raise UserError(
                    f"method.perturb.{key}={list(span)}: expected the lowest and the highest "
                    f"factor, both above 0; set method.perturb.{key}=[0.9,1.1]"
                )
        if offset < 0:
            raise UserError(
                f"method.perturb.offset={offset}: expected gray values from 0 on; set "
                "method.perturb.offset=5"
            )
        self.scale, self.gain, self.offset = tuple(scale), tuple(gain), offset / _WHITE

    def __call__(self, image: Tensor, u: Tensor) -> Tensor:
        """Perturb images (B, 1, H, W) in [0, 1] by the numbers (B, 3) of each."""
        grid = _corner_grid(1 / _within(self.scale, u[:, 0]), image)
        scaled = F.grid_sample(image, grid, padding_mode="zeros", align_corners=False)
        gain = _within(self.gain, u[:, 1])[:, None, None, None]
        offset = self.offset * (2 * u[:, 2] - 1)[:, None, None, None]
        return (gain * scaled + offset).clamp(0, 1)

    def undo(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (B, C, H, W) of perturbed images at their old size, and what was seen (B, 1, H, W).

        Where an image had been cut off, the map's edge is repeated, and 0 says that it was not
        seen.
        """
        grid = _corner_grid(_within(self.scale, u[:, 0]), x)
        back = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
        return back, (grid <= 1).all(-1)[:, None].to(x.dtype)


def _within(span: tuple[float, ...], u: Tensor) -> Tensor:
    low, high = span
    return low + (high - low) * u


def _corner_grid(factor: Tensor, image: Tensor) -> Tensor:
    """Where each pixel (B, H, W, 2) is taken from: its distance to the corner, times a factor."""

    def places(n: int) -> Tensor:
        centers = (torch.arange(n, device=image.device, dtype=image.dtype) + 0.5) / n
        return 2 * factor[:, None] * centers - 1  # (B, n), the image's edges at -1 and 1

    height, width = image.shape[-2:]
    y, x = places(height)[:, :, None], places(width)[:, None, :]
    return torch.stack(torch.broadcast_tensors(x, y), dim=-1)
