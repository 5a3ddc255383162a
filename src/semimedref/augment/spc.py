"""SPC: strong image, pseudo-mask and the words left and right flip together (a rival)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from semimedref.augment.plan import Plan, empty_plan
from semimedref.augment.t_patchmix import Mixed
from semimedref.dataset.sample import Batch
from semimedref.text.caption import swap_sides


class SPC:
    """Mirror a sample, sentence included, with some probability."""

    draws = 1

    def __init__(self, *, probability: float) -> None:
        self.probability = probability

    def plan(self, batch: Batch, u: np.ndarray) -> Plan:
        """Who is mirrored, and the sentence that fits."""
        flip = u[:, 0] < self.probability
        pairs = zip(batch.sentences, flip, strict=True)
        texts = [swap_sides(s) if mirrored else s for s, mirrored in pairs]
        return replace(empty_plan(texts, batch.image.shape[-1]), flip=torch.from_numpy(flip))

    def mix(self, image: Tensor, probability: Tensor, plan: Plan, u: Tensor) -> Mixed:
        """Mirror image and pseudo-mask."""
        del u
        mirrored = plan.flip[:, None, None, None]
        nothing = torch.zeros_like(image)
        return Mixed(
            image=torch.where(mirrored, image.flip(-1), image),
            probability=torch.where(mirrored, probability.flip(-1), probability),
            patch=nothing,
            gated=nothing,
            pasted=plan.allowed,
            choice=torch.zeros_like(plan.donor),
        )
