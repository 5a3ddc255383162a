"""How far two loss curves are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Curve = Sequence[Mapping[str, float]]  # of each step, every loss by name


@dataclass(frozen=True)
class Deviation:
    """The largest difference of two curves.

    Attributes:
        share: of the reference's total loss at that step.
        step: the first one is 1.
        term: the loss that differs.
    """

    share: float
    step: int
    term: str

    def __str__(self) -> str:
        return f"{self.share:.1e} of the loss ({self.term}, step {self.step})"


def deviation(curve: Curve, reference: Curve) -> Deviation:
    """The largest difference; infinite where steps or terms are missing or a loss is not finite.

    A term is small beside the total when its weight ramps up, so all are measured by the total.
    """
    if len(curve) != len(reference):
        return Deviation(math.inf, min(len(curve), len(reference)) + 1, "steps")
    largest = Deviation(0.0, 1, "loss")
    for step, (ours, theirs) in enumerate(zip(curve, reference, strict=True), start=1):
        if ours.keys() != theirs.keys():
            return Deviation(math.inf, step, ", ".join(sorted(ours.keys() ^ theirs.keys())))
        for term, value in ours.items():
            share = abs(value - theirs[term]) / max(abs(theirs["loss"]), 1e-12)
            if not math.isfinite(share):
                return Deviation(math.inf, step, term)
            if share > largest.share:
                largest = Deviation(share, step, term)
    return largest
