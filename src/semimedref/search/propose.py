"""Propose points: each follows from the study's seed, its number and the trials of lower batches.

The sampler never sees the persistent study: for every batch a study in memory is built from what
was recorded, so neither an interruption nor the order in which jobs end nor another process can
change a point.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semimedref.errors import UserError
from semimedref.search.record import Trial
from semimedref.search.stop import best_so_far

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

Space = Mapping[str, "BaseDistribution"]


@dataclass(frozen=True)
class Point:
    """A proposal: parameters, and what the sampler wants to remember about them."""

    params: dict[str, Any]
    attributes: dict[str, Any]


def propose(
    number: int,
    sampler: Callable[[int], BaseSampler],
    *,
    space: Space,
    directions: Sequence[str],
    below: Sequence[Trial],
    beside: Sequence[Trial] = (),
) -> Point:
    """The point of one trial.

    Args:
        number: of the trial.
        sampler: makes the sampler for the number of a trial.
        space: distribution by key.
        directions: of the objectives.
        below: all trials of lower batches.
        beside: the trials of the same batch with lower numbers; only their points are seen.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(sampler=sampler(number), directions=list(directions))
    history = [frozen(trial, space) for trial in below]
    history += [frozen(trial, space, running=True) for trial in beside]
    study.add_trials(history)
    trial = study.ask(fixed_distributions=dict(space))
    if trial.number != number:
        raise AssertionError(f"trial {trial.number} was proposed instead of {number}")
    return Point(dict(trial.params), dict(study.trials[-1].system_attrs))


def frozen(trial: Trial, space: Space, *, running: bool = False) -> FrozenTrial:
    """A recorded trial as Optuna knows it."""
    from optuna.trial import TrialState, create_trial

    states = {
        "open": TrialState.RUNNING,
        "done": TrialState.COMPLETE,
        "stopped": TrialState.PRUNED,
        "failed": TrialState.FAIL,
    }
    open_ = running or trial.state == "open"
    return create_trial(
        state=TrialState.RUNNING if open_ else states[trial.state],
        values=trial.values if not open_ and trial.state in ("done", "stopped") else None,
        params=trial.params,
        distributions=dict(space),
        system_attrs=trial.attributes,
        user_attrs={} if running else {"run": trial.run, "reason": trial.reason},
        intermediate_values={} if open_ else dict(enumerate(best_so_far(trial.curve), start=1)),
    )


def distributions(space: Mapping[str, str]) -> dict[str, BaseDistribution]:
    """The ranges of a search for Optuna, read as Hydra's Optuna sweeper reads them."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra_plugins.hydra_optuna_sweeper._impl import create_optuna_distribution_from_override
    from optuna.distributions import BaseDistribution

    parser, found = OverridesParser.create(), {}
    for key, words in space.items():
        try:
            (override,) = parser.parse_overrides([f"{key}={words}"])
            found[key] = create_optuna_distribution_from_override(override)
        except Exception as error:  # the parser's, the sweeper's asserts, Optuna's own
            raise UserError(f"the range {key}={words} cannot be read: {error}") from error
        if not isinstance(found[key], BaseDistribution):
            raise UserError(
                f"{key}={words} is no range: expected e.g. interval(0.03,0.2), "
                "tag(log,interval(0.001,0.1)), choice(16,32,64) or range(8,64,8)"
            )
    return found


def grid(space: Space) -> dict[str, list[Any]]:
    """Every value of each distribution, for a grid."""
    from hydra_plugins.hydra_optuna_sweeper._impl import OptunaSweeperImpl

    try:
        return {k: list(OptunaSweeperImpl._to_grid_sampler_choices(d)) for k, d in space.items()}
    except ValueError as error:
        raise UserError(
            f"hydra/sweeper/sampler=grid: {error} Expected choice(…) or range(…) for every key"
        ) from error


def trial_seed(seed: int, number: int) -> int:
    """The sampler's seed for one trial of a study."""
    import numpy as np

    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
