"""What the host decides about a strong view before the step: donors, boxes, candidate sentences.

Whether a patch is pasted, and for some variants where, is the teacher's decision and stays on the
device. So the host prepares every sentence that could result, and the device picks one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Plan:
    """Host decisions for a batch of B samples with C candidate sentences each.

    Attributes:
        sentences: (B, C); the first of a sample is the one without a mix.
        donor: (B,) int64, whose pixels a sample may receive.
        box: (B, 4) int64, pixels: left, top, right, bottom.
        allowed: (B,) bool, whether anything may be mixed at all.
        flip: (B,) bool.
        texts: the B * C sentences, prepared for the text encoder.
        cells: (B, K) bool, the regions that come from the donor, where whole ones do.
        brought: of each sample, the regions that a mix adds to its words.
    """

    sentences: tuple[tuple[str, ...], ...]
    donor: Tensor
    box: Tensor
    allowed: Tensor
    flip: Tensor
    texts: Any = None
    cells: Tensor | None = None
    brought: tuple[tuple[int, ...], ...] = ()

    @property
    def candidates(self) -> int:
        """C."""
        return len(self.sentences[0])

    def prepared(self, prepare: Callable[[Sequence[str]], Any]) -> Plan:
        """With all candidate sentences tokenized or looked up."""
        return replace(self, texts=prepare([s for row in self.sentences for s in row]))

    def to(self, device: object) -> Plan:
        """On a device; copies do not block."""
        names = ("donor", "box", "allowed", "flip")
        names += ("cells",) if self.cells is not None else ()
        moved = {n: getattr(self, n).to(device, non_blocking=True) for n in names}
        return replace(self, texts=self.texts.to(device), **moved)


def empty_plan(sentences: Sequence[str], side: int) -> Plan:
    """No mix: every sample keeps its image and has one sentence."""
    n = len(sentences)
    return Plan(
        sentences=tuple((s,) for s in sentences),
        donor=torch.arange(n),
        box=torch.tensor([[0, 0, side, side]]).repeat(n, 1),
        allowed=torch.zeros(n, dtype=torch.bool),
        flip=torch.zeros(n, dtype=torch.bool),
    )


def derangement(u: np.ndarray) -> np.ndarray:
    """A donor for every sample, never itself: one cycle through a random order of the batch."""
    order = np.argsort(u, kind="stable")
    donor = np.empty_like(order)
    donor[order] = np.roll(order, -1)
    return donor


def permutation(u: np.ndarray) -> np.ndarray:
    """A random permutation, in which a sample may be its own donor (the release)."""
    return np.argsort(u, kind="stable")
