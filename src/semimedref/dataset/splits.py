"""Which training images carry a mask: the paper's rule, nested over ratios by construction."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from semimedref.errors import UserError


def labeled_subset(
    ids: Sequence[str], *, fraction: float, split_seed: int, rounding: str
) -> tuple[list[int], list[int]]:
    """Places of the labeled and of the unlabeled images, each in file order.

    The ids are shuffled by ``random.Random(split_seed)`` on a fresh copy and the first
    ``round(n * fraction)`` (or floor) are labeled, so a smaller ratio is a subset of a larger one.
    """
    if not 0 < fraction <= 1:
        raise UserError(
            f"ratio.fraction={fraction} is impossible: expected 0 < fraction <= 1, "
            "e.g. `semimedref train ratio=2pct` or `ratio.fraction=0.02`"
        )
    if rounding not in _ROUNDING:
        raise UserError(f"dataset.rounding={rounding}: expected {' or '.join(_ROUNDING)}")
    order = list(range(len(ids)))
    random.Random(split_seed).shuffle(order)
    count = max(1, _ROUNDING[rounding](len(ids) * fraction))
    labeled = sorted(order[:count])
    unlabeled = sorted(order[count:])
    return labeled, unlabeled


_ROUNDING = {"round": round, "floor": math.floor}
