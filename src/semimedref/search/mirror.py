"""Optuna's own database of a study, for ``optuna-dashboard``; written from the record.

Open it with ``optuna-dashboard sqlite:///multirun/searches/STUDY/optuna.db``.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from semimedref.search.propose import Space, frozen
from semimedref.search.record import Study
from semimedref.search.settings import Search

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

FILE = "optuna.db"


def write(study: Study, search: Search, space: Space) -> None:
    """Add and end trials until the database says what the record says.

    A trial that Optuna holds as ended cannot change: if one was run again, all are written anew.
    """
    import optuna

    search.folder.mkdir(parents=True, exist_ok=True)
    storage = optuna.storages.RDBStorage(f"sqlite:///{search.folder / FILE}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # metric names
            _write(study, search, storage=storage, space=space)
    finally:
        storage.engine.dispose()


def _write(
    study: Study, search: Search, *, storage: optuna.storages.RDBStorage, space: Space
) -> None:
    import optuna

    directions = [one.direction for one in search.objectives]
    target = optuna.create_study(
        storage=storage, study_name=study.name, directions=directions, load_if_exists=True
    )
    ours = [frozen(trial, space) for trial in study.trials]
    known = target.get_trials(deepcopy=False)
    if len(known) > len(ours) or not all(map(_continues, known, ours)):
        optuna.delete_study(study_name=study.name, storage=storage)
        target = optuna.create_study(storage=storage, study_name=study.name, directions=directions)
        known = []
    if not known:
        target.set_metric_names([one.key for one in search.objectives])
        target.set_user_attr("experiment", search.name)
    for theirs, own in zip(known, ours, strict=False):
        if not theirs.state.is_finished() and own.state.is_finished():
            _end(theirs, own, storage)
    target.add_trials(ours[len(known) :])


def _continues(theirs: FrozenTrial, own: FrozenTrial) -> bool:
    """Whether a trial of the database is the recorded one, now or earlier."""
    if not theirs.state.is_finished():
        return theirs.params == own.params
    return (theirs.state, theirs.values, theirs.params) == (own.state, own.values, own.params)


def _end(theirs: FrozenTrial, own: FrozenTrial, storage: optuna.storages.RDBStorage) -> None:
    for step, value in own.intermediate_values.items():
        storage.set_trial_intermediate_value(theirs._trial_id, step, value)
    for key, value in own.user_attrs.items():
        storage.set_trial_user_attr(theirs._trial_id, key, value)
    storage.set_trial_state_values(theirs._trial_id, state=own.state, values=own.values)
