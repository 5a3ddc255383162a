"""CutMix, image only: a rectangle of a donor with its pseudo-mask; the sentence stays (a rival)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from semimedref.augment.plan import Plan, derangement, empty_plan
from semimedref.augment.t_patchmix import Mixed, mix
from semimedref.dataset.sample import Batch


class CutMix:
    """A rectangle of random area and shape at a random place."""

    draws = 6

    def __init__(
        self, *, probability: float, area: tuple[float, float], ratio: tuple[float, float]
    ) -> None:
        self.probability, self.area, self.ratio = probability, tuple(area), tuple(ratio)

    def plan(self, batch: Batch, u: np.ndarray) -> Plan:
        """Donors and rectangles; one sentence a sample."""
        side = batch.image.shape[-1]
        base = empty_plan(batch.sentences, side)
        boxes = torch.tensor([self._rectangle(row, side) for row in u])
        tried = torch.from_numpy(u[:, 1] < self.probability) & (len(batch) > 1)
        donor = torch.from_numpy(derangement(u[:, 0]))
        return Plan(base.sentences, donor, boxes, tried, base.flip)

    def _rectangle(self, u: np.ndarray, side: int) -> tuple[int, int, int, int]:
        area = (self.area[0] + (self.area[1] - self.area[0]) * float(u[2])) * side * side
        low, high = np.log(self.ratio)
        ratio = float(np.exp(low + (high - low) * float(u[3])))
        width = min(side, max(1, round((area * ratio) ** 0.5)))
        height = min(side, max(1, round((area / ratio) ** 0.5)))
        left, top = int(u[4] * (side - width + 1)), int(u[5] * (side - height + 1))
        return left, top, left + width, top + height

    def mix(self, image: Tensor, probability: Tensor, plan: Plan, u: Tensor) -> Mixed:
        """Paste the rectangles into image and pseudo-mask."""
        del u
        height, width = image.shape[-2:]
        x = torch.arange(width, device=image.device)[None, None, :]
        y = torch.arange(height, device=image.device)[None, :, None]
        left, top, right, bottom = (plan.box[:, k, None, None] for k in range(4))
        inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
        patch = (inside & plan.allowed[:, None, None])[:, None].to(image.dtype)
        return Mixed(
            image=mix(image, image.index_select(0, plan.donor), patch),
            probability=mix(probability, probability.index_select(0, plan.donor), patch),
            patch=patch,
            gated=patch,
            pasted=plan.allowed,
            choice=torch.zeros_like(plan.donor),
        )
