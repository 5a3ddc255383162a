"""Every number of the training loop, checked before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semimedref.errors import UserError

VALIDATION = "validation"  # in the place of a threshold: the one that scores best there


@dataclass(frozen=True)
class TrainerConfig:
    """Every number of the loop; conf/trainer/default.yaml says what each is."""

    batch_size: int
    accumulate: int
    epochs: int
    min_epochs: int
    steps_per_epoch: int | None
    steps: str
    labeled_sampler: str
    patience: int | None
    min_change: float
    optimizer: str
    lr: float
    lr_shape: str
    lr_power: float
    min_lr: float
    weight_decay: float
    warmup_epochs: float
    cosine_epochs: float
    lr_update: str
    clip_norm: float | None
    precision: str
    threshold: float | str
    threshold_step: float

    @classmethod
    def read(cls, group: Mapping[str, Any]) -> TrainerConfig:
        """From the group ``trainer`` of a configuration."""
        known = cls.__dataclass_fields__
        unknown = [key for key in group if key not in known]
        if unknown:
            raise UserError(f"trainer.{unknown[0]} is unknown: expected {', '.join(known)}")
        return cls(**group)

    @property
    def thresholds(self) -> list[float]:
        """Those among which validation chooses: every multiple of the step inside (0, 1)."""
        number = round(1 / self.threshold_step)
        return [round(k * self.threshold_step, 6) for k in range(1, number)]

    def epoch_length(self, labeled: int, unlabeled: int, *, uses_unlabeled: bool) -> int:
        """Optimizer steps of an epoch over so many images."""
        from semimedref.dataset.loaders import steps_per_epoch

        if self.steps_per_epoch is not None:
            return self.steps_per_epoch
        other = 0 if self.steps == "native" and not uses_unlabeled else unlabeled
        return steps_per_epoch(
            labeled, other, batch_size=self.batch_size, accumulate=self.accumulate
        )

    def __post_init__(self) -> None:
        """Refuse numbers and words that cannot be meant."""
        for key in ("batch_size", "accumulate", "epochs"):
            _expect(f"trainer.{key}", getattr(self, key), "a whole number from 1 on", _positive)
        for key in ("steps_per_epoch", "patience"):
            value = getattr(self, key)
            _expect(f"trainer.{key}", value, "null or a number from 1 on", _positive_or_none)
        _expect("trainer.threshold", self.threshold, f"a number from 0 to 1, or {VALIDATION}",
                lambda v: v == VALIDATION or (_number(v) and v <= 1))  # fmt: skip
        _expect("trainer.threshold_step", self.threshold_step, "a number above 0, at most 0.5",
                lambda v: _number(v) and 0 < v <= 0.5)  # fmt: skip
        for key in ("lr", "lr_power", "min_lr", "weight_decay", "warmup_epochs"):
            _expect(f"trainer.{key}", getattr(self, key), "a number from 0 on", _number)
        for key, words in _WORDS.items():
            value = getattr(self, key)
            _expect(f"trainer.{key}", value, " or ".join(words), lambda v, w=words: v in w)
        span = self.cosine_epochs - self.warmup_epochs
        _expect("trainer.cosine_epochs", self.cosine_epochs, "more than warmup_epochs",
                lambda _: span > 0)  # fmt: skip


_WORDS = {
    "optimizer": ("adamw", "adam"),
    "lr_shape": ("cosine", "restarts", "poly"),
    "lr_update": ("step", "epoch"),
    "steps": ("matched", "native"),
    "labeled_sampler": ("cycle", "replacement"),
    "precision": ("fp32", "bf16", "fp16"),
}


def _expect(key: str, value: object, wanted: str, fits: Callable[[Any], bool]) -> None:
    if not fits(value):
        raise UserError(f"{key}={value}: expected {wanted}")


def _positive(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _positive_or_none(value: object) -> bool:
    return value is None or _positive(value)
