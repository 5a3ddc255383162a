"""The anatomical regions that the sentences of a data set can name, in the order of its labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """Sides and levels whose product, side by side, gives the multi-hot position label q."""

    name: str
    sides: tuple[str, ...]
    levels: tuple[str, ...]

    @property
    def regions(self) -> tuple[str, ...]:
        """Region names in label order: all levels of the first side, then of the second."""
        return tuple(f"{level} {side}" for side in self.sides for level in self.levels)


LUNGS = Vocabulary("lungs", sides=("left", "right"), levels=("upper", "middle", "lower"))
