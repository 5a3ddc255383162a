"""A point as an ordinary run: its overrides, its folder, and a note there of the study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semimedref import config
from semimedref.expansion import hydra_value
from semimedref.files import write_atomic
from semimedref.folder import STUDIES
from semimedref.search.record import Study, Trial
from semimedref.search.settings import Search


@dataclass(frozen=True)
class Order:
    """What a launcher is asked to train."""

    name: str  # of the run folder
    overrides: tuple[str, ...]


def words(params: Mapping[str, Any]) -> list[str]:
    """Parameters in the grammar of Hydra's command line; texts are in it already."""
    return [f"{k}={v if isinstance(v, str) else hydra_value(v)}" for k, v in params.items()]


def overrides_of(search: Search, number: int, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that compose a trial; the last two decide no result."""
    own = [f'row="{row_name(number)}"', f"study={search.study}"]
    return (*search.fixed, *words(params), *own)


def row_name(number: int) -> str:
    """What a trial is called where rows of a table have labels."""
    return f"trial {number}"


def compose(overrides: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The name of the run folder and the configuration."""
    from semimedref.combinations import check_combination

    plain = config.resolved(config.compose(list(overrides)))
    check_combination(plain)
    return config.run_name(plain), plain


def note(search: Search, study: Study, trial: Trial) -> None:
    """Write into the run folder which trial it is, and under which limits it stops.

    One file for each study: a run that serves several keeps all, and no two writers meet. A point
    that comes twice in a study has its first number; the limits are those of the latest.
    """
    path = search.run_root / trial.run / STUDIES / f"{study.name}.json"
    numbers = [one.number for one in study.trials if one.run == trial.run]
    content = {
        "study": study.name,
        "experiment": study.experiment,
        "trials": numbers,
        "objective": search.objectives[0].key,
        "limits": study.bounds_of(trial.number),
    }
    text = json.dumps(content, indent=1) + "\n"
    if not path.exists() or path.read_text() != text:
        write_atomic(path, text)


def read_note(folder: Path, study: str) -> dict[str, Any] | None:
    """What a search has noted in a run folder."""
    try:
        found = json.loads((folder / STUDIES / f"{study}.json").read_text())
    except FileNotFoundError:
        return None
    found["limits"] = {int(epoch): value for epoch, value in found["limits"].items()}
    return found
