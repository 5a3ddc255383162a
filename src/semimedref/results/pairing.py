"""Results that can be paired: the same images, of the same patients, with the same truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from semimedref.errors import UserError
from semimedref.results.measures import Floats

if TYPE_CHECKING:
    import pandas as pd


def check_pairs(sides: Mapping[str, Sequence[pd.DataFrame]]) -> None:
    """Refuse methods that were not tested on the same images, equally often.

    Args:
        sides: per-image tables of every method, one for each of its training seeds.
    """
    numbers = {name: len(frames) for name, frames in sides.items()}
    if len(set(numbers.values())) > 1:
        found = ", ".join(f"{name} {n}" for name, n in numbers.items())
        raise UserError(
            f"found methods with different numbers of seeds ({found}); expected as many for each, "
            "so that one table stands beside one table"
        )
    flat = [(name, frame) for name, frames in sides.items() for frame in frames]
    (first, reference), *others = flat
    if not others:
        return
    expected = _identity(reference)
    for name, frame in others:
        found = _identity(frame)
        if not expected.equals(found):
            raise _unpaired((first, expected), (name, found))


def patient_sums(frame: pd.DataFrame, parts: Floats) -> Floats:
    """Sums (P, K) of per-image numbers (N, K) over the images of each patient, in sorted order."""
    cluster, names = frame["patient"].factorize(sort=True)
    patients = len(names)
    columns = [np.bincount(cluster, weights=column, minlength=patients) for column in parts.T]
    return np.stack(columns, axis=1)


def _identity(frame: pd.DataFrame) -> pd.DataFrame:
    """What does not depend on the method: images, patients, true pixels."""
    columns = frame[["id", "patient"]].astype(str)
    columns["truth"] = frame["tp"] + frame["fn"]
    return columns.set_index("id").sort_index()


def _unpaired(first: tuple[str, pd.DataFrame], second: tuple[str, pd.DataFrame]) -> UserError:
    """Name the first image in which two results differ."""
    (a, left), (b, right) = first, second
    only = left.index.symmetric_difference(right.index)
    if len(only):
        holder, lacking = (a, b) if only[0] in left.index else (b, a)
        what = f"image {only[0]!r} is in {holder} and not in {lacking}"
    else:
        differs = (left != right).any(axis=1)
        image = differs.index[differs][0]
        column = "patient" if left.at[image, "patient"] != right.at[image, "patient"] else "truth"
        values = f"{left.at[image, column]} in {a} and {right.at[image, column]} in {b}"
        words = {"patient": "patient", "truth": "number of true pixels (tp + fn)"}[column]
        what = f"the {words} of image {image!r} is {values}"
    return UserError(
        f"found results that cannot be paired: {a} has {len(left)} images, {b} has {len(right)}, "
        f"and {what}; expected the same test images with the same masks at the same size "
        "(`semimedref diff RUN_A RUN_B` shows the configurations of two runs)"
    )
