"""The paper's own numbers, in long form beside this file, and whether they are of one family.

Scores that pool the counts of a whole test set obey mIoU = D / (2 − D). A pair that does not was
measured in another way (a mean over images, say), so nothing here compares it with one that does.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from semimedref.errors import UserError

Family = Literal["dataset", "near", "other"]
FOLDER = Path(__file__).parent / "paper"
_STD = "_std"  # ends the name of a sample standard deviation over seeds
_DIGITS = 0.005  # half of the last digit of a value that is printed with two
_FAMILY = ("dice", "miou")  # the pair whose relation tells the family
_FIXED = ("row", "metric", "value")
_SEEDS = 3  # of the main table's deviations: 0, 1 and 42


@dataclass(frozen=True)
class Reported:
    """One value of the paper, in percent (costs: in their own unit), with its deviation if given.

    Attributes:
        family: how the value agrees with mIoU = D / (2 − D): within rounding, nearly, or not;
            where only one of the two is given nothing can be told, and it counts as agreeing.
    """

    value: float
    std: float | None = None
    family: Family = "dataset"
    seeds: int | None = None  # runs that it is the mean of, where that is known
    own: bool = (
        True  # whether its own table gives the deviation, or the main one for the same number
    )


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: values by row, place (data set, ratio and more) and metric."""

    name: str
    records: tuple[dict[str, str], ...]

    @property
    def rows(self) -> list[str]:
        """Its rows in order."""
        return list(dict.fromkeys(record["row"] for record in self.records))

    @property
    def metrics(self) -> list[str]:
        """What it reports."""
        found = dict.fromkeys(record["metric"] for record in self.records)
        return [name for name in found if not name.endswith(_STD)]

    def look(self, row: str, place: Mapping[str, str]) -> dict[str, Reported]:
        """The values of a row at a place, by metric; empty where the paper has none."""
        found = {
            record["metric"]: float(record["value"])
            for record in self.records
            if record["row"] == row and _is_at(record, place)
        }
        family = family_of(found)
        own = set(found)
        found = _deviations(found, place) | found
        return {
            metric: Reported(
                value,
                found.get(metric + _STD),
                family if metric in _FAMILY else "dataset",
                _SEEDS if metric + _STD in found else None,
                metric + _STD in own or metric + _STD not in found,
            )
            for metric, value in found.items()
            if not metric.endswith(_STD)
        }


def known_tables() -> list[str]:
    """The tables of the paper that list scores, by name."""
    return sorted(f.stem for f in FOLDER.glob("*.csv") if f.stem != "significance")


@lru_cache(maxsize=32)
def load_table(name: str) -> PaperTable:
    """Read ``results/paper/NAME.csv``."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        raise UserError(
            f"table.paper={name} is no table of the paper: expected {', '.join(known_tables())}, "
            "or null"
        )
    with path.open(newline="", encoding="utf-8") as file:
        return PaperTable(name, tuple(csv.DictReader(file)))


def expected_miou(dice: float) -> float:
    """D / (2 − D), in percent: what mIoU must be if both pool the counts of a whole set."""
    return 100 * dice / (200 - dice)


def rounding(dice: float) -> float:
    """How far mIoU may lie from that because both are printed with two digits."""
    slope = 2 * 100**2 / (200 - dice) ** 2
    return _DIGITS * (1 + slope)


def family_of(values: Mapping[str, float]) -> Family:
    """To which family a pair of Dice and mIoU belongs."""
    if not all(metric in values for metric in _FAMILY):
        return "dataset"
    apart = abs(values["miou"] - expected_miou(values["dice"]))
    if apart <= rounding(values["dice"]):
        return "dataset"
    return "near" if apart <= tolerance() else "other"


@lru_cache(maxsize=1)
def tolerance() -> float:
    """From how many points on a pair is another family; below it is rounding, seeds or a slip."""
    import yaml

    return float(yaml.safe_load((FOLDER / "audit.yaml").read_text())["tolerance"])


def _deviations(values: Mapping[str, float], place: Mapping[str, str]) -> dict[str, float]:
    """Deviations that the main table gives for the same published numbers at the same place."""
    same: dict[str, dict[str, float]] = {}
    for record in load_table("main").records:
        if _is_at(record, place):
            same.setdefault(record["row"], {})[record["metric"]] = float(record["value"])
    for known in same.values():
        if all(known.get(m) == values.get(m) for m in _FAMILY if m in values) and "dice" in values:
            return {key: value for key, value in known.items() if key.endswith(_STD)}
    return {}


def _is_at(record: Mapping[str, str], place: Mapping[str, str]) -> bool:
    """Whether a record stands at a place; what it leaves empty may be anything."""
    conditions = ((k, v) for k, v in record.items() if k not in _FIXED and v)
    return all(place.get(key) == value for key, value in conditions)
