"""Run a search: propose a batch, train what is missing of it, tell, and so on to the last trial."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.launch.queue import Place, places, seen
from semimedref.results import store
from semimedref.search import mirror, point
from semimedref.search.objective import ObjectiveError, outcome
from semimedref.search.propose import distributions, propose
from semimedref.search.record import Study, Trial
from semimedref.search.settings import Search
from semimedref.search.stop import limits

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

log = logging.getLogger(__name__)

_LEFT = ("running", "queued")  # a job that is under way decides nothing yet


@dataclass
class Drive:
    """One search on one launcher.

    Attributes:
        launch: trains runs and comes back when they have ended, however they ended; it gets the
            orders, and the names of runs whose jobs are under way already.
        sampler: makes the sampler for the number of a trial.
        announce: is told the runs that served this study without being trained for it.
        retry: whether failed trials are run again.
        stop: whether the search ends after a batch with a failed trial.
    """

    search: Search
    study: Study
    launch: Callable[[Sequence[point.Order], Sequence[str]], None]
    sampler: Callable[[int], BaseSampler]
    announce: Callable[[Sequence[str]], None]
    retry: bool = False
    stop: bool = False

    @property
    def total(self) -> int:
        """How many trials there are to be."""
        return self.study.total(self.search.trials)

    def run(self) -> None:
        """Train what is missing, batch by batch."""
        space = distributions(self.search.space)
        for batch in range(-(-self.total // self.search.batch)):
            trials = self._batch(batch, space)
            todo = [t for t in trials if t.state == "open" or (self.retry and t.state == "failed")]
            if todo:
                self._train([t for t in todo if t.run])
                self._keep(space)
                print(self.headline(), flush=True)
            if any(trial.state == "open" for trial in trials):
                print("jobs are under way: the same command goes on when they have ended")
                return
            if self.stop and any(trial.state == "failed" for trial in todo):
                print("on_error=stop: the remaining trials were not started", flush=True)
                return

    def headline(self) -> str:
        """``12 trials, 9 done, 1 stopped early, 0 failed, 2 to run``."""
        return headline(self.study, self.total, retry=self.retry)

    def _batch(self, number: int, space: dict[str, BaseDistribution]) -> list[Trial]:
        """The trials of a batch; those that are not there are proposed and kept before they run."""
        study, first = self.study, number * self.search.batch
        wanted = range(first, min(first + self.search.batch, self.total))
        if len(study.limits) <= number:
            curves = [t.curve for t in study.below(number) if t.state == "done"]
            study.limits.append(limits(self.search.stop, curves))
        known = len(study.trials)
        for missing in range(known, wanted.stop):
            proposed = propose(
                missing, self.sampler, space=space, below=study.below(number),
                directions=[one.direction for one in self.search.objectives],
                beside=study.trials[first:],
            )  # fmt: skip
            study.trials.append(self._trial(missing, proposed.params, proposed.attributes))
        if len(study.trials) > known:
            self._keep(space)
        return [study.trials[i] for i in wanted]

    def _trial(self, number: int, params: dict, attributes: dict) -> Trial:
        """A point with its run; one that cannot be composed has failed already."""
        try:
            name, _ = point.compose(point.overrides_of(self.search, number, params))
        except Exception as error:  # whatever an option's check or Hydra says about this point
            return Trial(number, params, attributes, "", "failed", reason=_line(error))
        return Trial(number, params, attributes, name)

    def _train(self, todo: Sequence[Trial]) -> None:
        """Bring each trial to an end; a run that decides already costs nothing."""
        for trial in todo:
            trial.state = "open"
            point.note(self.search, self.study, trial)
        open_ = [trial for trial in todo if not self._tell(trial)]
        self.announce([trial.run for trial in todo if trial not in open_])
        orders = {
            t.run: point.Order(t.run, point.overrides_of(self.search, t.number, t.params))
            for t in open_
        }
        queue = places(self.search.run_root)
        waiting = [name for name in orders if name in queue and self._state(name, queue) in _LEFT]
        fresh = [order for name, order in orders.items() if name not in waiting]
        if orders:
            self.launch(fresh, waiting)
        queue = places(self.search.run_root)
        for trial in open_:
            if not self._tell(trial) and self._state(trial.run, queue) not in _LEFT:
                trial.state, trial.values = "failed", None
                trial.reason = _failure(self.search.run_root / trial.run)

    def _state(self, name: str, queue: Mapping[str, Place]) -> store.State:
        return seen(store.state(self.search.run_root / name), queue.get(name))

    def _tell(self, trial: Trial) -> bool:
        """Take over what the run folder decides; False if it decides nothing."""
        try:
            folder = self.search.run_root / trial.run
            told = outcome(self.search, folder, self.study.bounds_of(trial.number))
        except ObjectiveError:
            raise
        except UserError as error:  # damaged files: this trial is lost, the others are not
            trial.state, trial.reason = "failed", str(error)
            return True
        if told is None:
            return False
        trial.state, trial.values, trial.reason = told.state, told.values, told.reason
        trial.curve = list(told.curve)
        return True

    def _keep(self, space: dict[str, BaseDistribution]) -> None:
        """Save the record; Optuna's database follows, and may not be in the way."""
        self.study.save(self.search.folder)
        try:
            mirror.write(self.study, self.search, space)
        except Exception as error:  # a database that cannot be written loses nothing
            log.warning("optuna.db was not written: %s", _line(error))


def headline(study: Study, total: int, *, retry: bool = False) -> str:
    """How far a study is, in the words of a sweep."""
    count = {state: study.count(state, total) for state in ("done", "stopped", "failed")}
    parts = [f"{total} trials", f"{count['done']} done"]
    if count["stopped"]:
        parts.append(f"{count['stopped']} stopped early")
    if count["failed"]:
        hint = "" if retry else " (retry_failed=true runs them again)"
        parts.append(f"{count['failed']} failed{hint}")
    left = total - count["done"] - count["stopped"] - (0 if retry else count["failed"])
    return ", ".join([*parts, f"{left} to run"])


def _failure(folder: Path) -> str:
    with suppress(UserError):
        return store.load_failure(folder)
    return "the job ended without a result: it was cancelled, killed or lost"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
