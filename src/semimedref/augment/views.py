"""The two views of a sample: weak for labels and for the teacher, strong for the student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from semimedref.augment.image import ColorJitter, GaussianBlur, Zoom
from semimedref.dataset.sample import Batch


@dataclass(frozen=True)
class View:
    """An image in [0, 1] with the mask that fits it; standardize before the network."""

    image: Tensor  # (B, 1, H, W)
    mask: Tensor | None  # (B, 1, H, W)


class Views(Protocol):
    """The contract of ``augment=``; ``draws`` is how many numbers a sample needs."""

    draws: int

    def weak(self, batch: Batch) -> View:
        """The view that labels and the teacher see."""
        ...

    def strong(self, weak: View, batch: Batch) -> View:
        """The student's view, made of the weak one, so that both share their geometry."""
        ...


class WeakOnly:
    """``augment=none``: the strong view is the weak one."""

    def __init__(self, *, zoom: Zoom) -> None:
        self.zoom = zoom
        self.draws = zoom.draws

    def weak(self, batch: Batch) -> View:
        """Joint zoom of image and mask."""
        return View(*self.zoom(batch.image, batch.mask, batch.uniform[:, : self.zoom.draws]))

    def strong(self, weak: View, batch: Batch) -> View:
        """Nothing is added."""
        return weak


class WeakStrong(WeakOnly):
    """``augment=weak_strong``: brightness, contrast and blur on top of the weak view."""

    def __init__(self, *, zoom: Zoom, jitter: ColorJitter, blur: GaussianBlur) -> None:
        super().__init__(zoom=zoom)
        self.jitter, self.blur = jitter, blur
        self._jitter_from = zoom.draws
        self._blur_from = zoom.draws + jitter.draws
        self.draws = zoom.draws + jitter.draws + blur.draws

    def strong(self, weak: View, batch: Batch) -> View:
        """Jitter, then blur, in [0, 1]."""
        u = batch.uniform
        image = self.jitter(weak.image, u[:, self._jitter_from : self._blur_from])
        image = self.blur(image, u[:, self._blur_from : self.draws])
        return View(image, weak.mask)
