"""The stages of a method, one after the other in one run, such as labeled images alone, then all.

A stage has its share of the epochs, its own curve of the learning rate over them and its own best
epoch, with whose weights the next one begins. Lengths and steps are counted from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semimedref.errors import UserError


class Stages:
    """Which stage is on, since when, and for how many epochs.

    Args:
        shares: of all epochs, by the stage's name and in order; none: one stage without a name.
        epochs: of the whole training.
    """

    def __init__(self, shares: Mapping[str, float], epochs: int) -> None:
        self.names = tuple(shares) or ("",)
        self.lengths = _lengths(tuple(shares.values()) or (1.0,), epochs)
        self.number, self.start = 0, 0  # of the stage that is on; the epoch after which it began

    @property
    def name(self) -> str:
        """Of the stage that is on."""
        return self.names[self.number]

    @property
    def epochs(self) -> int:
        """How long it may last."""
        return self.lengths[self.number]

    @property
    def is_last(self) -> bool:
        """Whether the training ends with it."""
        return self.number == len(self.names) - 1

    def share(self) -> float:
        """Of all epochs."""
        return self.epochs / sum(self.lengths)

    def over(self, epoch: int) -> bool:
        """Whether it has lasted as long as it may."""
        return epoch - self.start >= self.epochs

    def advance(self, epoch: int) -> None:
        """The next one begins after that epoch."""
        self.number, self.start = self.number + 1, epoch

    def state(self) -> dict[str, int]:
        """For a checkpoint."""
        return {"number": self.number, "start": self.start}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self.number, self.start = state["number"], state["start"]


def _lengths(shares: tuple[float, ...], epochs: int) -> tuple[int, ...]:
    """Whole epochs, at least one each, and all of them together."""
    if min(shares) <= 0 or len(shares) > epochs:
        raise UserError(
            f"stages with shares {list(shares)} of trainer.epochs={epochs}: expected shares above "
            "0 and an epoch for each stage"
        )
    done, spent, lengths = 0.0, 0, []
    for left, share in zip(range(len(shares) - 1, -1, -1), shares, strict=True):
        done += share
        end = round(epochs * done / sum(shares))
        end = min(max(end, spent + 1), epochs - left)
        lengths.append(end - spent)
        spent = end
    return tuple(lengths)
