"""The two views of a sample: weak for labels and for the teacher, strong for the student."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from semimedref.augment.image import ColorJitter, GaussianBlur, Zoom
from semimedref.augment.plan import Plan, empty_plan
from semimedref.augment.t_patchmix import Mixed
from semimedref.dataset.sample import Batch


@dataclass(frozen=True)
class View:
    """An image in [0, 1] with the mask that fits it; standardize before the network."""

    image: Tensor  # (B, 1, H, W)
    mask: Tensor | None  # (B, 1, H, W)


class Mixer(Protocol):
    """Mixes samples: decides what it can on the host (plan), the rest on the device (mix)."""

    draws: int

    def plan(self, batch: Batch, u: np.ndarray) -> Plan:
        """Donors, boxes and candidate sentences."""
        ...

    def mix(self, image: Tensor, probability: Tensor, plan: Plan, u: Tensor) -> Mixed:
        """Mixed images and probabilities."""
        ...


class Words(Protocol):
    """Edits a sentence on the host."""

    draws: int

    def __call__(self, sentence: str, u: np.ndarray) -> str:
        """The sentence that the student reads."""
        ...


class Views:
    """Weak: joint zoom. Strong: jitter and blur, then mixing, then words; each may be left out."""

    def __init__(
        self,
        *,
        zoom: Zoom,
        jitter: ColorJitter | None,
        blur: GaussianBlur | None,
        mixer: Mixer | None,
        words: Words | None,
    ) -> None:
        self.zoom, self.jitter, self.blur = zoom, jitter, blur
        self.mixer, self.words = mixer, words
        self._columns, self.draws = _allot(zoom, jitter, blur, mixer, words)

    def plan(self, batch: Batch, prepare: Callable[[Sequence[str]], Any]) -> Plan:
        """What the host decides for a batch on the host, sentences prepared."""
        u = batch.uniform.numpy()
        if self.mixer is None:
            plan = empty_plan(batch.sentences, batch.image.shape[-1])
        else:
            plan = self.mixer.plan(batch, u[:, self._columns[3]])
        if self.words is not None:
            numbers = u[:, self._columns[4]]
            rows = zip(plan.sentences, numbers, strict=True)
            plan = replace(
                plan, sentences=tuple(tuple(self.words(s, n) for s in row) for row, n in rows)
            )
        return plan.prepared(prepare)

    def weak(self, batch: Batch) -> View:
        """The view that labels and the teacher see."""
        return View(*self.zoom(batch.image, batch.mask, batch.uniform[:, self._columns[0]]))

    def strong(self, weak: View, batch: Batch, probability: Tensor) -> Mixed:
        """The student's view, made of the weak one, so that both share their geometry.

        Args:
            weak: the weak view of the same batch.
            batch: on the device, with its plan.
            probability: P (B, 1, H, W), the teacher's, for the weak view.
        """
        image = weak.image
        if self.jitter is not None:
            image = self.jitter(image, batch.uniform[:, self._columns[1]])
        if self.blur is not None:
            image = self.blur(image, batch.uniform[:, self._columns[2]])
        if self.mixer is not None:
            u = batch.uniform[:, self._columns[3]]
            return self.mixer.mix(image, probability, batch.plan, u)
        nothing = torch.zeros_like(image)
        none = torch.zeros(len(image), dtype=torch.bool, device=image.device)
        return Mixed(image, probability, nothing, nothing, none, none.long())


def _allot(*parts: object) -> tuple[list[slice], int]:
    """The columns of a sample's numbers that each part may use."""
    columns, start = [], 0
    for part in parts:
        stop = start + (part.draws if part is not None else 0)
        columns.append(slice(start, stop))
        start = stop
    return columns, start
