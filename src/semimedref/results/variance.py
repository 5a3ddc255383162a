"""How much of the spread is the labeled subset, and how much the model seed?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from semimedref.results.table import Entry, Table


@dataclass(frozen=True)
class Spread:
    """Standard deviations of Dice, as fractions: between columns, between seeds, and the rest."""

    row: str
    columns: float
    seeds: float
    rest: float
    n_columns: int
    n_seeds: int


def components(table: NDArray[np.float64]) -> tuple[float, float, float]:
    """Variance components of a complete (columns, seeds) table, by the method of moments.

    Two random effects without interaction: E[MS_columns] = rest² + S · columns², E[MS_seeds] =
    rest² + C · seeds². An estimate below zero is zero.
    """
    columns, seeds = table.shape
    mean = table.mean()
    of_columns = table.mean(axis=1, keepdims=True) - mean
    of_seeds = table.mean(axis=0, keepdims=True) - mean
    left = table - mean - of_columns - of_seeds
    rest = float((left**2).sum()) / ((columns - 1) * (seeds - 1))
    by_columns = seeds * float((of_columns**2).sum()) / (columns - 1)
    by_seeds = columns * float((of_seeds**2).sum()) / (seeds - 1)
    parts = (by_columns - rest) / seeds, (by_seeds - rest) / columns, rest
    first, second, third = (math.sqrt(max(0.0, part)) for part in parts)
    return first, second, third


def spreads(table: Table) -> list[Spread]:
    """The components of each row whose columns are all complete."""
    found = []
    for row in table.rows:
        entries = [entry for entry in table.entries if entry.row == row and entry.runs]
        values = _complete(entries)
        if values is not None:
            found.append(Spread(row, *components(values), *values.shape))
    return found


def _complete(entries: Sequence[Entry]) -> NDArray[np.float64] | None:
    values = [entry.scores["dice"].values for entry in entries if entry.complete]
    if len(values) != len(entries) or len(values) < 2 or min(map(len, values)) < 2:
        return None
    return np.array(values) if len({len(v) for v in values}) == 1 else None
