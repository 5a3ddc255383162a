"""A search with its study as far as it has come: what ``status``, ``table`` and ``report`` show."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from semimedref.search.point import overrides_of, row_name
from semimedref.search.record import Study, Trial
from semimedref.search.settings import Search, read_search

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from semimedref.launch.queue import Place
    from semimedref.sweep import Experiment


@dataclass(frozen=True)
class View:
    """The settings, and what is recorded."""

    search: Search
    study: Study
    places: Mapping[str, Place] = field(default_factory=dict)  # of trials in SLURM's queue

    def under_way(self, trial: Trial) -> str:
        """What is going on with a trial that has no result yet; empty if nothing is."""
        from semimedref.launch.queue import GONE, RUNS, WAITS
        from semimedref.results import store

        place = self.places.get(trial.run) if trial.run else None
        if trial.state != "open" or not trial.run:
            return ""
        if store.state(self.search.run_root / trial.run) == "running":
            return RUNS
        return place.at if place is not None and place.at in (GONE, RUNS, WAITS) else ""

    @property
    def words(self) -> str:
        """The words that name the search on the command line."""
        from semimedref.search.best import flags

        given = self.search.overrides
        own = [word for word in given if not word.startswith("hydra.searchpath=")]
        return shlex.join([*flags(given), *own])

    @property
    def headline(self) -> str:
        """How far the study is."""
        from semimedref.search.drive import headline

        return headline(self.study, self.study.total(self.search.trials))

    def final(self, trial: Trial) -> str:
        """The command that trains a point for good."""
        from semimedref.search.best import final_command

        return final_command(self.search, trial)


def as_experiment(base: DictConfig, overrides: Sequence[str]) -> Experiment:
    """A search as an experiment: its cells are the trials that are known so far."""
    from semimedref.launch.queue import places
    from semimedref.sweep import Cell, Experiment

    search = read_search(base, overrides)
    study = Study.load(search)
    seed = {"seed": f"s{base.seed.value}"}
    cells: dict[str, Cell] = {}
    for trial in study.trials:
        if trial.run and trial.run not in cells:
            cells[trial.run] = Cell(
                row=row_name(trial.number),
                point=seed | {key: str(value) for key, value in trial.params.items()},
                overrides=overrides_of(search, trial.number, trial.params),
                config=_config(search, trial),
                signature=trial.run.rpartition("-")[2],
                name=trial.run,
            )
    return Experiment(
        name=search.name,
        title=search.title,
        columns=[],
        over="seed",
        metrics=[],
        run_root=search.run_root,
        cells=list(cells.values()),
        overrides=tuple(overrides),
        scale=base.scale.name,
        search=View(search, study, places(search.run_root)),
    )


def _config(search: Search, trial: Trial) -> dict[str, Any]:
    """The configuration with which a run was started; composing all again would take seconds."""
    from semimedref.search.point import compose

    try:
        return json.loads((search.run_root / trial.run / "run.json").read_text())["config"]
    except (OSError, ValueError, KeyError):
        return compose(overrides_of(search, trial.number, trial.params))[1]
