"""The record of a study: every point with its run and what came of it, one JSON file.

The file is replaced in one move, by the one process that runs the search. Optuna's own database
beside it is written from it (``mirror.py``) and may be deleted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.search.settings import Search
from semimedref.search.stop import Limits

State = Literal["open", "done", "stopped", "failed"]
FILE = "study.json"


@dataclass
class Trial:
    """One point of a search, and its run."""

    number: int
    params: dict[str, Any]
    attributes: dict[str, Any]  # what the sampler notes about the point (its generation, its place)
    run: str  # name of the run folder; empty if the point cannot be composed
    state: State = "open"
    values: list[float] | None = None  # one for each objective; a stopped trial's: the best so far
    curve: list[float] = field(default_factory=list)  # the validation score by epoch
    reason: str = ""  # why it failed or stopped


@dataclass
class Study:
    """All trials in order, and the limits under which those of each batch stop."""

    name: str
    experiment: str
    batch: int
    objectives: dict[str, str]
    space: dict[str, str]
    size: int | None = None  # of a grid: it has no more trials
    trials: list[Trial] = field(default_factory=list)
    limits: list[Limits] = field(default_factory=list)  # one for each batch

    @classmethod
    def load(cls, search: Search) -> Study:
        """The study as far as it has come; a new one if there is none."""
        path = search.folder / FILE
        if not path.exists():
            objectives = {one.key: one.direction for one in search.objectives}
            return cls(search.study, search.name, search.batch, objectives, dict(search.space))
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            trials = [Trial(**one) for one in stored.pop("trials")]
            bounds = [{int(k): v for k, v in one.items()} for one in stored.pop("limits")]
            return cls(**stored, trials=trials, limits=bounds)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(
                f"{path} is damaged ({error}): move it away, then the same command rebuilds the "
                "study; its finished runs are found again"
            ) from error

    def save(self, folder: Path) -> None:
        """Replace the file."""
        write_atomic(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")

    def below(self, batch: int) -> list[Trial]:
        """The trials of all lower batches: what a proposal of this batch may know."""
        return self.trials[: batch * self.batch]

    def total(self, wanted: int) -> int:
        """How many trials there are to be."""
        return wanted if self.size is None else min(wanted, self.size)

    def count(self, state: State, total: int | None = None) -> int:
        """How many of the first trials are in a state."""
        return sum(trial.state == state for trial in self.trials[:total])

    def bounds_of(self, number: int) -> Limits:
        """The limits under which a trial stops."""
        return self.limits[number // self.batch]
