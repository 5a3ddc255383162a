"""Which configuration keys differ between two runs, two rows of a table or two options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from semimedref.errors import UserError

if TYPE_CHECKING:
    from semimedref.sweep import Cell, Experiment

ABSENT = "–"


@dataclass(frozen=True)
class Difference:
    """One key with its two values, printed as JSON; a dash where the key does not exist."""

    key: str
    a: str
    b: str


def differences(a: Mapping[str, object], b: Mapping[str, object]) -> list[Difference]:
    """Every leaf key whose value differs, in the order of the keys.

    A group that another one interpolates (``method.views: ${augment}``) is listed once.
    """
    left, right = flatten(_without_copies(a)), flatten(_without_copies(b))
    found = []
    for key in sorted(left.keys() | right.keys()):
        values = left.get(key, ABSENT), right.get(key, ABSENT)
        if values[0] != values[1]:
            found.append(Difference(key, *values))
    return found


def option_differences(a: str, b: str, *, shared: Sequence[str] = ()) -> list[Difference]:
    """Every key in which the configurations of two overrides differ.

    What another group interpolates is listed where it is written, not where it is read.
    """
    from omegaconf import OmegaConf

    from semimedref import config

    written: list[dict[str, object]] = []
    values: list[dict[str, str]] = []
    for override in (a, b):
        cfg = config.compose([*shared, override])
        groups = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        written.append(cast(dict[str, object], OmegaConf.to_container(groups, resolve=False)))
        values.append(flatten(config.resolved(cfg)))
    found = differences(*written)
    return [Difference(d.key, values[0].get(d.key, d.a), values[1].get(d.key, d.b)) for d in found]


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Leaves of a nested configuration by dotted key; lists and empty mappings are leaves."""
    leaves: dict[str, str] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            leaves.update(flatten(value, f"{key}."))
        else:
            leaves[key] = json.dumps(value, ensure_ascii=False, default=str)
    return leaves


def _without_copies(config: Mapping[str, object]) -> dict[str, object]:
    """The configuration without the parts of a group that repeat a whole other group."""
    groups = [value for value in config.values() if isinstance(value, Mapping) and value]
    return {
        name: {k: v for k, v in value.items() if v not in groups}
        if isinstance(value, Mapping)
        else value
        for name, value in config.items()
    }


def matching_cells(experiment: Experiment, a: str, b: str) -> tuple[Cell, Cell]:
    """The first cell of two rows that stand at the same point of the table."""
    cells: dict[str, list[Cell]] = {}
    for cell in experiment.cells:
        cells.setdefault(cell.row, []).append(cell)
    for row in (a, b):
        if row not in cells:
            rows = ", ".join(f'"{name}"' for name in cells)
            raise UserError(
                f"found no row {row!r} in {experiment.name}; expected one of {rows} "
                f"(`semimedref status experiment={experiment.name}` lists them)"
            )
    for first in cells[a]:
        for second in cells[b]:
            if first.point == second.point:
                return first, second
    return cells[a][0], cells[b][0]


def render(found: list[Difference], a: str, b: str) -> str:
    """Aligned text with one line a key."""
    if not found:
        return f"{a} and {b} have the same configuration.\n"
    lines = [("key", a, b), *((d.key, d.a, d.b) for d in found)]
    widths = [max(len(line[i]) for line in lines) for i in range(2)]
    return "".join(
        f"{key:<{widths[0]}}  {left:<{widths[1]}}  {right}".rstrip() + "\n"
        for key, left, right in lines
    )
