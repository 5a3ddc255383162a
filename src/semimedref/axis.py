"""How a trained run is asked. One training, several evaluations: each has its file in ``eval/``."""

from __future__ import annotations

from dataclasses import dataclass

from semimedref.errors import UserError
from semimedref.text.removal import check_share


@dataclass(frozen=True)
class Axis:
    """How a trained run is asked: which weights, which sentences, where positions come from.

    ``removal`` is the share of sentences without positions; a route alone means all of them.
    """

    weights: str = "student"
    texts: str = "true"
    route: str | None = None
    removal: float | None = None

    def __post_init__(self) -> None:
        """Fill in what a route implies; refuse what cannot be meant."""
        if self.texts not in ("true", "shuffled"):
            raise UserError(f"texts={self.texts} is unknown: expected true or shuffled")
        if self.removal is None and self.route is not None:
            object.__setattr__(self, "removal", 1.0)
        if self.removal is not None:
            check_share("removal", self.removal)

    def name(self, split: str) -> str:
        """The file in ``eval/`` that holds the scores."""
        parts = [split, self.weights, f"{self.texts}_texts"]
        parts += [] if self.removal is None else [f"removed_{self.removal:g}"]
        parts += [] if self.route is None else [self.route]
        return "-".join(parts)
