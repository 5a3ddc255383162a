"""Image augmentations on whole batches in [0, 1], without a host sync.

Each takes the uniform numbers of every sample, one column per decision, so that a view depends on
nothing but the sample's place in training.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


class Zoom:
    """Joint central zoom of image (bicubic) and mask (nearest); edges are repeated."""

    draws = 2

    def __init__(self, *, probability: float, low: float, high: float) -> None:
        self.probability, self.low, self.high = probability, low, high

    def __call__(
        self, image: Tensor, mask: Tensor | None, u: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Zoom the samples whose first number says so; u is (B, 2)."""
        chosen = u[:, 0] < self.probability
        factor = torch.where(chosen, self.low + (self.high - self.low) * u[:, 1], 1.0)
        grid = _central_grid(1 / factor, image)
        pick = chosen[:, None, None, None]
        zoomed = _sample(image, grid, "bicubic").clamp(0, 1)
        image = torch.where(pick, zoomed, image)
        if mask is not None:
            mask = torch.where(pick, _sample(mask, grid, "nearest"), mask)
        return image, mask


class ColorJitter:
    """Brightness and contrast in random order, clamped to [0, 1]."""

    draws = 4

    def __init__(self, *, probability: float, brightness: float, contrast: float) -> None:
        self.probability, self.brightness, self.contrast = probability, brightness, contrast

    def __call__(self, image: Tensor, u: Tensor) -> Tensor:
        """Jitter the samples whose first number says so; u is (B, 4)."""
        u = u[:, :, None, None, None]
        b = 1 + self.brightness * (2 * u[:, 1] - 1)
        c = 1 + self.contrast * (2 * u[:, 2] - 1)
        one = _contrast(_brightness(image, b), c)
        other = _brightness(_contrast(image, c), b)
        jittered = torch.where(u[:, 3] < 0.5, one, other)
        return torch.where(u[:, 0] < self.probability, jittered, image)


class GaussianBlur:
    """Blur with a sigma of its own for each sample, edges reflected."""

    draws = 2

    def __init__(self, *, probability: float, kernel: int, low: float, high: float) -> None:
        self.probability, self.kernel = probability, kernel
        self.low, self.high = low, high

    def __call__(self, image: Tensor, u: Tensor) -> Tensor:
        """Blur the samples whose first number says so; u is (B, 2)."""
        sigma = self.low + (self.high - self.low) * u[:, 1]
        reach = self.kernel // 2
        at = torch.arange(-reach, reach + 1, device=image.device, dtype=image.dtype)
        weight = torch.exp(-0.5 * (at[None, :] / sigma[:, None]) ** 2)
        weight = weight / weight.sum(1, keepdim=True)  # (B, kernel)
        B, C, H, W = image.shape
        flat = F.pad(image, (reach,) * 4, mode="reflect").reshape(1, B * C, H + 2 * reach, -1)
        weight = weight.repeat_interleave(C, 0)[:, None]
        flat = F.conv2d(flat, weight[:, :, :, None], groups=B * C)
        flat = F.conv2d(flat, weight[:, :, None, :], groups=B * C)
        chosen = u[:, 0, None, None, None] < self.probability
        return torch.where(chosen, flat.reshape(B, C, H, W), image)


def _central_grid(scale: Tensor, image: Tensor) -> Tensor:
    """Where each pixel (B, H, W, 2) is taken from; the image's edges are at -1 and 1."""

    def centers(n: int) -> Tensor:
        return (2 * torch.arange(n, device=image.device, dtype=image.dtype) + 1) / n - 1

    height, width = image.shape[-2:]
    x = scale[:, None, None] * centers(width)
    y = scale[:, None, None] * centers(height)[:, None]
    return torch.stack(torch.broadcast_tensors(x, y), dim=-1)


def _sample(x: Tensor, grid: Tensor, mode: str) -> Tensor:
    return F.grid_sample(x, grid, mode=mode, padding_mode="border", align_corners=False)


def _brightness(image: Tensor, factor: Tensor) -> Tensor:
    return (image * factor).clamp(0, 1)


def _contrast(image: Tensor, factor: Tensor) -> Tensor:
    mean = image.mean(dim=(1, 2, 3), keepdim=True)
    return (mean + (image - mean) * factor).clamp(0, 1)
