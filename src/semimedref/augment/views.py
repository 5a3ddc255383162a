"""The two views of a sample: weak for labels and for the teacher, strong for the student."""

from __future__ import annotations

import copy
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
from semimedref.errors import UserError
from semimedref.intensity import NORMALIZATIONS, standardize

JITTER_SPACES = ("weak_statistics", "unit", "z_score")
LABELED_VIEWS = ("weak", "strong")
WORDS_WHEN = ("after_mixing", "own_phrases", "before_mixing")


@dataclass(frozen=True)
class View:
    """An image with the mask that fits it."""

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

    def __call__(self, sentence: str, u: np.ndarray, *, kept: Sequence[int] = ()) -> str:
        """The sentence that the student reads; phrases that name a kept region stay."""
        ...


class Views:
    """Weak: joint zoom. Strong: jitter and blur, mixing and words; each may be left out.

    Args:
        zoom: of both views.
        jitter: of the strong view.
        blur: after the jitter.
        mixer: mixes samples of a batch.
        words: edits sentences.
        words_when: ``after_mixing``, on complete mixed sentences; ``own_phrases``, the same, but
            phrases that a mix has brought stay; or ``before_mixing`` (release).
        jitter_space: where jitter and blur happen. ``weak_statistics``: the jitter in [0, 1], then
            the image is standardized as the weak view is, so that the jitter is still seen.
            ``unit``: both in [0, 1]; standardizing each image for itself undoes most of the jitter.
            ``z_score`` (release): after standardizing, where the jitter clamps to [0, 1].
        labeled_view: what labeled images get: ``weak``, or ``strong``: jitter and blur too.
    """

    def __init__(
        self,
        *,
        zoom: Zoom,
        jitter: ColorJitter | None,
        blur: GaussianBlur | None,
        mixer: Mixer | None,
        words: Words | None,
        words_when: str,
        jitter_space: str,
        labeled_view: str,
    ) -> None:
        _check("words_when", words_when, WORDS_WHEN)
        _check("jitter_space", jitter_space, JITTER_SPACES)
        _check("labeled_view", labeled_view, LABELED_VIEWS)
        self.zoom, self.jitter, self.blur = zoom, jitter, blur
        self.mixer, self.words = mixer, words
        self.words_when, self.jitter_space = words_when, jitter_space
        self.labeled_view = labeled_view
        self.normalize: Callable[[Tensor], Tensor] = standardize
        self._columns, self.draws = _allot(zoom, jitter, blur, mixer, words)

    def normalized_by(self, kind: str) -> Views:
        """The same views for a network that takes images in [0, 1] in its own way."""
        if self.jitter_space == "z_score" and kind != "z_score":
            raise UserError(
                f"augment.jitter_space=z_score hands out z-scored images, and this model takes "
                f"normalization {kind}: set preset.jitter_space=unit"
            )
        views = copy.copy(self)
        views.normalize = NORMALIZATIONS[kind]
        if self.jitter_space == "weak_statistics" and kind != "z_score":
            views.jitter_space = "unit"  # fixed statistics do not undo a jitter
        return views

    def plan(self, batch: Batch, prepare: Callable[[Sequence[str]], Any]) -> Plan:
        """What the host decides for a batch on the host, sentences prepared."""
        u = batch.uniform.numpy()
        if self.words_when == "before_mixing":
            edited = self._edited([(s,) for s in batch.sentences], u)
            plan = self._mix_plan(replace(batch, sentences=tuple(s for (s,) in edited)), u)
        else:
            plan = self._mix_plan(batch, u)
            kept = plan.brought if self.words_when == "own_phrases" else ()
            plan = replace(plan, sentences=self._edited(plan.sentences, u, kept))
        return plan.prepared(prepare)

    def _mix_plan(self, batch: Batch, u: np.ndarray) -> Plan:
        if self.mixer is None:
            return empty_plan(batch.sentences, batch.image.shape[-1])
        return self.mixer.plan(batch, u[:, self._columns[3]])

    def _edited(
        self,
        rows: Sequence[tuple[str, ...]],
        u: np.ndarray,
        kept: Sequence[tuple[int, ...]] = (),
    ) -> tuple[tuple[str, ...], ...]:
        """The candidate sentences of each sample, all edited by the sample's numbers."""
        words = self.words
        if words is None:
            return tuple(rows)
        numbers, kept = u[:, self._columns[4]], kept or [()] * len(rows)
        return tuple(
            tuple(words(sentence, own, kept=stay) for sentence in row)
            for row, own, stay in zip(rows, numbers, kept, strict=True)
        )

    def weak(self, batch: Batch) -> View:
        """The view that the teacher sees, in [0, 1]."""
        return View(*self.zoom(batch.image, batch.mask, batch.uniform[:, self._columns[0]]))

    def labeled(self, batch: Batch) -> View:
        """The view of labeled images, normalized; their sentences are never edited."""
        weak = self.weak(batch)
        if self.labeled_view == "weak":
            return View(self.normalize(weak.image), weak.mask)
        return View(self.normalized(self.perturb(weak, batch)), weak.mask)

    def strong(self, weak: View, batch: Batch, probability: Tensor) -> Mixed:
        """The student's view, made of the weak one, so that both share their geometry.

        Args:
            weak: the weak view of the same batch.
            batch: on the device, with its plan.
            probability: P (B, 1, H, W), the teacher's, for the weak view.
        """
        image = self.perturb(weak, batch)
        if self.mixer is not None:
            u = batch.uniform[:, self._columns[3]]
            return self.mixer.mix(image, probability, batch.plan, u)
        nothing = torch.zeros_like(image)
        none = torch.zeros(len(image), dtype=torch.bool, device=image.device)
        return Mixed(image, probability, nothing, nothing, none, none.long())

    def perturb(self, weak: View, batch: Batch) -> Tensor:
        """The strong image before anything is mixed: jitter and blur."""
        image = standardize(weak.image) if self.jitter_space == "z_score" else weak.image
        if self.jitter is not None:
            image = self.jitter(image, batch.uniform[:, self._columns[1]])
        if self.jitter_space == "weak_statistics":
            image = standardize(image, by=weak.image)
        if self.blur is not None:
            image = self.blur(image, batch.uniform[:, self._columns[2]])
        return image

    def normalized(self, strong: Tensor) -> Tensor:
        """A strong image as the network takes it."""
        return self.normalize(strong) if self.jitter_space == "unit" else strong


def _allot(*parts: object) -> tuple[list[slice], int]:
    """The columns of a sample's numbers that each part may use."""
    columns, start = [], 0
    for part in parts:
        stop = start + (part.draws if part is not None else 0)
        columns.append(slice(start, stop))
        start = stop
    return columns, start


def _check(key: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise UserError(f"augment.{key}={found} is unknown: expected {' or '.join(known)}")
