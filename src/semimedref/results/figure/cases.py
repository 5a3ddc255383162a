"""Which cases a figure shows: by a rule that the caption states, never by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from semimedref.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from semimedref.analysis.bootstrap import Floats

QUANTILES = (0.1, 0.5, 0.9)
RULE = (
    "Cases are chosen by a rule: those at the 10 %, 50 % and 90 % quantiles of the mean Dice over "
    "the shown rows (of the sorted cases the one at place ⌊quantile · (n − 1) + ½⌋, ties by id), "
    "then the cases with the largest gain and the largest loss of the last row against the first"
)


def choose(ids: Sequence[str], dice: Floats) -> dict[str, str]:
    """The chosen cases with the reason for each, a case once.

    Args:
        ids: of the cases.
        dice: (N, rows) of every case under every row.
    """
    order = sorted(range(len(ids)), key=lambda i: (float(dice[i].mean()), ids[i]))
    picks: dict[str, str] = {}
    for quantile in QUANTILES:
        at = order[at_quantile(quantile, len(order))]
        picks.setdefault(ids[at], f"{100 * quantile:.0f} % quantile")
    if dice.shape[1] < 2:
        return picks
    gain = dice[:, -1] - dice[:, 0]
    by_gain = sorted(range(len(ids)), key=lambda i: (-float(gain[i]), ids[i]))
    by_loss = sorted(range(len(ids)), key=lambda i: (float(gain[i]), ids[i]))
    if gain[by_gain[0]] > 0:
        picks.setdefault(ids[by_gain[0]], "largest gain")
    if gain[by_loss[0]] < 0:
        picks.setdefault(ids[by_loss[0]], "largest loss")
    return picks


def at_quantile(quantile: float, n: int) -> int:
    """Place of a quantile among n sorted cases."""
    return int(quantile * (n - 1) + 0.5)


def dice_table(frames: Mapping[str, pd.DataFrame]) -> tuple[list[str], Floats]:
    """The ids that all rows were tested on, and Dice (N, rows); per-image tables by row."""
    first = next(iter(frames.values()))
    ids = [str(case) for case in first["id"]]
    columns = []
    for row, frame in frames.items():
        scored = dict(zip(frame["id"].astype(str), frame["dice"].astype(float), strict=True))
        if scored.keys() != set(ids):
            raise UserError(
                f"row {row!r} was tested on other images than {next(iter(frames))!r}: "
                "qualitative panels need rows of one test set"
            )
        columns.append([scored[case] for case in ids])
    return ids, np.array(columns, dtype=np.float64).T
