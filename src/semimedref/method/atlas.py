"""``method=atlas``: masks of the labeled images are counted; only a threshold is chosen.

The controls of every table: ``model=text_atlas`` (words without image) and ``model=mean_mask``.
Each epoch tries another threshold, and the trainer keeps the one with the best validation Dice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.views import View
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.intensity import standardize
from semimedref.method.schedule import Progress
from semimedref.method.supervised import Supervised
from semimedref.model.atlas import Atlas

_READ_AT_ONCE = 64  # labeled images; it decides nothing


class AtlasMethod(Supervised):
    """An atlas of the labeled masks, cut where validation images say.

    A mean mask is seldom above one half, so the usual cut would leave nothing of it. The chosen
    threshold is part of the weights: the network shifts its logits so that a cut at 0.5 is one of
    the mean at the threshold.

    Args:
        model: the atlas.
        thresholds: tried in this order, one an epoch; fewer epochs try some of them, evenly spread.
    """

    def __init__(self, *, model: Atlas, thresholds: Sequence[float]) -> None:
        _check(model, thresholds)
        loss = F.binary_cross_entropy_with_logits  # for the log alone
        super().__init__(model=model, views=_AsTheyAre(), loss=loss, text_dropout=False)
        self.thresholds = list(thresholds)

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Count the masks; a resumed run counts them again."""
        batches = labeled.batches(_READ_AT_ONCE)
        self.student.collect((batch.mask, batch.position) for batch in batches)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Take up the epoch's threshold; the loss is only reported."""
        self.student.threshold.fill_(self.threshold(progress))
        return super().step(labeled, unlabeled, progress)

    def threshold(self, progress: Progress) -> float:
        """The threshold that this epoch tries."""
        epoch = progress.step // progress.steps_per_epoch
        epochs = progress.total_steps // progress.steps_per_epoch
        n = len(self.thresholds)
        return self.thresholds[(2 * epoch + 1) * n // (2 * epochs)]  # amid an equal share of them

    def values(self, progress: Progress) -> dict[str, float]:
        """The threshold."""
        return {"threshold": self.threshold(progress)}


class _AsTheyAre:
    """Views that change nothing."""

    draws = 0

    def normalized_by(self, kind: str) -> Self:
        """An atlas does not look at images."""
        del kind
        return self

    def labeled(self, batch: Batch) -> View:
        return View(standardize(batch.image), batch.mask)


def _check(model: Atlas, thresholds: Sequence[float]) -> None:
    if not isinstance(model, Atlas):
        raise UserError(
            f"method=atlas counts masks and trains nothing, but {type(model).__name__} has to be "
            "trained: choose model=text_atlas or model=mean_mask, or method=supervised"
        )
    if not thresholds or not all(0 < t < 1 for t in thresholds):
        raise UserError(
            f"method.thresholds={list(thresholds)}: expected one or more numbers between 0 and 1"
        )
