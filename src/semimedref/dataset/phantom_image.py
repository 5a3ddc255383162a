"""Draw one phantom radiograph.

Only sums, products, quotients and square roots of uniform draws are used, element by element: each
is rounded alike on every processor, so the phantom's hash is the same on every machine. (No sin, no
exp, no normal variates, no matrix products.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from semimedref.dataset.phantom import Difficulty

Field = np.ndarray  # (S, S) float64


@dataclass(frozen=True)
class Lesion:
    """An opacity: a rotated ellipse whose edge is bent later."""

    dx: float  # offset from the region's center, shares of the image side
    dy: float
    radius_x: float
    radius_y: float
    cos: float
    sin: float
    contrast: float

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        *,
        radius: tuple[float, float],
        elongation: float,
        contrast: tuple[float, float],
    ) -> Lesion:
        """A lesion of random size, shape, direction and contrast."""
        u = rng.random(7)
        r = _between(radius, u[0])
        stretch = 1 + (elongation - 1) * float(u[1])
        t = 2 * float(u[2]) - 1  # the half-angle form of a rotation needs no sine
        return cls(
            dx=_between((-0.05, 0.05), u[3]),
            dy=_between((-0.04, 0.04), u[4]),
            radius_x=r * stretch,
            radius_y=r / stretch,
            cos=(1 - t * t) / (1 + t * t),
            sin=2 * t / (1 + t * t),
            contrast=_between(contrast, u[5]),
        )


@dataclass(frozen=True)
class Anatomy:
    """Geometry and brightness of one patient's chest, in shares of the image side."""

    lungs: tuple[tuple[float, float, float, float], ...]  # (center x, y, radius x, y)
    rib_spacing: float
    rib_phase: float
    rib_curve: float
    rib: float
    spine: float
    heart: tuple[float, float, float, float]
    tissue: float
    air: float
    gain: float
    offset: float

    @classmethod
    def draw(cls, rng: np.random.Generator, *, spread: float) -> Anatomy:
        """A patient; ``spread`` scales how much patients differ from the mean."""

        def vary(mean: float, half_width: float) -> float:
            return mean + spread * half_width * (2 * float(rng.random()) - 1)

        lungs = tuple(
            (vary(x, 0.03), vary(0.5, 0.04), vary(0.17, 0.02), vary(0.37, 0.03))
            for x in (0.29, 0.71)
        )
        return cls(
            lungs=lungs,
            rib_spacing=vary(0.115, 0.02),
            rib_phase=float(rng.random()),
            rib_curve=vary(0.35, 0.2),
            rib=vary(0.10, 0.05),
            spine=vary(0.10, 0.05),
            heart=(vary(0.54, 0.03), vary(0.66, 0.04), vary(0.12, 0.03), vary(0.14, 0.03)),
            tissue=vary(0.62, 0.06),
            air=vary(0.22, 0.05),
            gain=vary(1.0, 0.15),
            offset=vary(0.0, 0.08),
        )

    def visit(self, rng: np.random.Generator) -> Anatomy:
        """The same patient on another day: slightly other breath and exposure."""
        u = 2 * rng.random(4) - 1
        lungs = tuple(
            (x + 0.01 * u[0], y + 0.01 * u[1], rx, ry * (1 + 0.04 * u[2]))
            for x, y, rx, ry in self.lungs
        )
        return replace(self, lungs=lungs, gain=self.gain * (1 + 0.05 * u[3]))


def radiograph(
    rng: np.random.Generator,
    anatomy: Anatomy,
    lesions: dict[int, Lesion],
    *,
    side: int,
    difficulty: Difficulty,
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """The image (S, S) uint8 and the mask of each lesion by region."""
    ticks = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(ticks, ticks)
    lung = np.zeros((side, side))
    for center_x, center_y, radius_x, radius_y in anatomy.lungs:
        d = _square((x - center_x) / radius_x) + _square((y - center_y) / radius_y)
        lung = np.maximum(lung, _smooth((1.15 - d) / 0.35))
    image = anatomy.tissue + (anatomy.air - anatomy.tissue) * lung
    image = image + anatomy.rib * _ribs(anatomy, x, y) * (0.35 + 0.65 * lung)
    image = image + anatomy.spine * _smooth((0.05 - np.abs(x - 0.5)) / 0.03)
    hx, hy, hrx, hry = anatomy.heart
    image = image + 0.22 * _smooth(1.2 - _square((x - hx) / hrx) - _square((y - hy) / hry))
    for _ in range(difficulty.clutter):
        image = image + _vessel(rng, anatomy, x, y)

    masks = {}
    for region, lesion in lesions.items():
        opacity, masks[region] = _opacity(rng, anatomy, lesion, region, x, y, difficulty)
        image = image + opacity
    image = image + 0.05 * _smooth_noise(rng, 6, side) + 0.03 * _smooth_noise(rng, 16, side)
    u = rng.random((4, side, side))
    image = image + difficulty.noise * (u[0] + u[1] + u[2] + u[3] - 2.0)
    image = image * anatomy.gain + anatomy.offset
    return (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8), masks


def _opacity(
    rng: np.random.Generator,
    anatomy: Anatomy,
    lesion: Lesion,
    region: int,
    x: Field,
    y: Field,
    difficulty: Difficulty,
) -> tuple[Field, np.ndarray]:
    """Added brightness and mask of a lesion: ellipse, bent edge, soft border, texture."""
    side, level = divmod(region, 3)
    center_x, center_y, _, radius_y = anatomy.lungs[side]
    px = x - (center_x + lesion.dx)
    py = y - (center_y + (level - 1) * 0.6 * radius_y + lesion.dy)
    along = (px * lesion.cos + py * lesion.sin) / lesion.radius_x
    across = (py * lesion.cos - px * lesion.sin) / lesion.radius_y
    bend = _smooth_noise(rng, 9, x.shape[0])
    d = _square(along) + _square(across) + difficulty.bend * bend
    texture = 1 + difficulty.texture * _smooth_noise(rng, 20, x.shape[0])
    return lesion.contrast * _smooth((1.25 - d) / 0.5) * texture, (d < 1).astype(np.uint8)


def _vessel(rng: np.random.Generator, anatomy: Anatomy, x: Field, y: Field) -> Field:
    """A bright streak that starts near the middle: part of every chest, never a lesion."""
    u = rng.random(5)
    side = int(u[0] * 2)
    start_x = 0.44 if side == 0 else 0.56
    start_y = 0.36 + 0.24 * u[1]
    slope = 1.6 * u[2] - 0.8
    reach = 0.12 + 0.14 * u[3]
    away = (start_x - x) if side == 0 else (x - start_x)
    distance = np.abs(y - start_y - slope * away)
    width = 0.012 * (1.3 - np.clip(away / reach, 0.0, 1.0))
    along = _smooth(away / 0.02) * _smooth((reach - away) / 0.05)
    return (0.06 + 0.10 * u[4]) * along * _smooth(1.5 - distance / width)


def _ribs(anatomy: Anatomy, x: Field, y: Field) -> Field:
    """Curved stripes that fall away from the spine."""
    height = y + anatomy.rib_curve * _square(np.abs(x - 0.5) - 0.15)
    wave = height / anatomy.rib_spacing + anatomy.rib_phase
    wave = np.abs(2 * (wave - np.floor(wave)) - 1)
    return _smooth((wave - 0.45) / 0.35)


def _smooth_noise(rng: np.random.Generator, cells: int, side: int) -> Field:
    """Noise in about [-1, 1] that varies over side / cells pixels."""
    grid = 2 * rng.random((cells + 2, cells + 2)) - 1
    at = (np.arange(side) + 0.5) / side * cells
    low = np.floor(at).astype(int)
    f = at - low
    f = f * f * (3 - 2 * f)
    fx, fy = f[None, :], f[:, None]
    top = grid[low][:, low] * (1 - fx) + grid[low][:, low + 1] * fx
    bottom = grid[low + 1][:, low] * (1 - fx) + grid[low + 1][:, low + 1] * fx
    return top * (1 - fy) + bottom * fy


def _smooth(t: Field) -> Field:
    """Smooth step: 0 below 0, 1 above 1."""
    t = np.clip(t, 0.0, 1.0)
    return t * t * (3 - 2 * t)


def _square(t: Field) -> Field:
    return t * t


def _between(low_high: tuple[float, float], u: float) -> float:
    return low_high[0] + (low_high[1] - low_high[0]) * float(u)
