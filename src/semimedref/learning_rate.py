"""The learning rate of a step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semimedref.trainer_config import TrainerConfig


def learning_rate(
    config: TrainerConfig, step: int, steps_per_epoch: int, share: float = 1.0
) -> float:
    """Linear warm-up, then a cosine or a power, updated each step or each epoch.

    Restarts keep their period, however long a stage is; other curves run over the whole stage.

    Args:
        config: its lengths are those of the whole training.
        step: since the curve began.
        steps_per_epoch: of the training.
        share: of the training over which the whole curve runs.
    """
    at, warmup = step / steps_per_epoch, share * config.warmup_epochs
    if at < warmup:
        return config.lr * (step + 1) / (warmup * steps_per_epoch)
    at = math.floor(at) if config.lr_update == "epoch" else at
    if config.lr_shape == "poly":
        left = max(0.0, 1 - (at - warmup) / (share * config.epochs - warmup))
        return config.min_lr + (config.lr - config.min_lr) * left**config.lr_power
    if config.lr_shape == "restarts":
        along = (at - warmup) / config.cosine_epochs % 1.0
    else:
        along = min(1.0, (at - warmup) / (share * config.cosine_epochs - warmup))
    return config.min_lr + (config.lr - config.min_lr) * (1 + math.cos(math.pi * along)) / 2
