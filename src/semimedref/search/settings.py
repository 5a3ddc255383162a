"""What an experiment file says about a search, checked, and the name of its study.

A study is named by everything that decides which points are proposed: the configuration, the space,
the sampler, the seed, the batch, the objectives and the rule that stops bad trials. How many trials
it has does not count: more of them continue it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config
from semimedref.errors import UserError
from semimedref.search.stop import StopRule

if TYPE_CHECKING:
    from omegaconf import DictConfig

FOLDER = "searches"  # in the run root: a folder for each study
COSTS = ("cost/steps", "cost/parameters", "cost/gflops")
# Samplers whose points follow from a seed and the finished trials alone.
_SAMPLERS = ("TPESampler", "RandomSampler", "GPSampler", "GridSampler", "create_nsgaii_sampler",
             "create_nsgaiii_sampler")  # fmt: skip
_KEYS = ("title", "trials", "batch", "seed", "objectives", "stop", "final")


@dataclass(frozen=True)
class Objective:
    """One number that a search improves."""

    key: str  # val/… of the best epoch, or cost/…
    direction: str  # maximize | minimize

    def better(self, a: float, b: float) -> bool:
        """Whether ``a`` is strictly better than ``b``."""
        return a > b if self.direction == "maximize" else a < b


@dataclass(frozen=True)
class Search:
    """A search as its experiment file and the command line state it."""

    name: str
    title: str
    study: str  # name and signature of what decides the points
    trials: int
    batch: int
    seed: int
    objectives: tuple[Objective, ...]
    stop: StopRule | None
    space: dict[str, str]  # key -> range in Hydra's words
    sampler: dict[str, Any]
    fixed: tuple[str, ...]  # overrides of every trial
    overrides: tuple[str, ...]  # the words that named the search
    final: dict[str, str]  # what is changed when the best point is trained for good
    run_root: Path
    choices: dict[str, str] = field(default_factory=dict)  # option of every config group

    @property
    def folder(self) -> Path:
        """Where the study is kept."""
        return self.run_root / FOLDER / self.study


def read_search(base: DictConfig, overrides: Sequence[str]) -> Search:
    """The search of a composed experiment.

    Args:
        base: the experiment, composed without the overrides that are ranges.
        overrides: all words of the command line; ranges among them join or replace the space.
    """
    node = _node(base)
    fixed, ranges = _split(overrides)
    pinned = {word.partition("=")[0] for word in fixed}
    written = {str(k): str(v) for k, v in (base.hydra.sweeper.params or {}).items()}
    # Sorted: the order in which ranges are written must not decide the points.
    given_space = {k: v for k, v in written.items() if k not in pinned} | ranges
    space = dict(sorted(given_space.items()))
    given = _plain(base.hydra.sweeper.sampler).items()
    sampler = {str(k): v for k, v in given if v is not None}  # else what Optuna does
    objectives = tuple(Objective(str(k), str(v)) for k, v in (node["objectives"] or {}).items())
    stop = _stop_rule(node["stop"])
    _check(base, node, space=space, sampler=sampler, objectives=objectives)
    decides = {
        "signed": config.signed(config.resolved(base)), "space": space, "sampler": sampler,
        "seed": node["seed"], "batch": node["batch"], "stop": node["stop"],
        "objectives": list(node["objectives"].items()),
    }  # fmt: skip
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"), default=str)
    name = str(base.experiment_name)
    return Search(
        name=name,
        title=node["title"],
        study=f"{name}-{hashlib.sha1(text.encode()).hexdigest()[:12]}",
        trials=node["trials"],
        batch=node["batch"],
        seed=node["seed"],
        objectives=objectives,
        stop=stop,
        space=space,
        sampler=sampler,
        fixed=tuple(fixed),
        overrides=tuple(overrides),
        final={str(k): str(v) for k, v in node["final"].items()},
        run_root=Path(base.run_root),
        choices={str(k): str(v) for k, v in base.hydra.runtime.choices.items()},
    )


def _node(base: DictConfig) -> dict[str, Any]:
    node = _plain(base.search)
    wrong = [k for k in (*node, *_KEYS) if (k in node) != (k in _KEYS)]
    if wrong:
        raise UserError(
            f"search.{wrong[0]} of experiment={base.experiment_name} is "
            f"{'unknown' if wrong[0] in node else 'missing'}: expected {', '.join(_KEYS)}"
        )
    return node


def _stop_rule(node: Any) -> StopRule | None:  # noqa: ANN401 - whatever the YAML holds
    if node is None:
        return None
    least = {"warmup": 0, "trials": 1}
    if not isinstance(node, dict) or set(node) != set(least):
        raise UserError(f"search.stop={node}: expected null or the keys {', '.join(least)}")
    for key, lowest in least.items():
        if not isinstance(node[key], int) or node[key] < lowest:
            raise UserError(
                f"search.stop.{key}={node[key]}: expected a whole number from {lowest} on"
            )
    return StopRule(**node)


def _check(
    base: DictConfig,
    node: dict[str, Any],
    *,
    space: dict[str, str],
    sampler: dict[str, Any],
    objectives: Sequence[Objective],
) -> None:
    for key, least in (("trials", 1), ("batch", 1), ("seed", 0)):
        value = node[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"search.{key}={value}: expected a whole number from {least} on")
    if not space:
        raise UserError(
            "the search has no parameter: add e.g. align.temperature='interval(0.03,0.2)', or "
            f"hydra.sweeper.params in conf/experiment/{base.experiment_name}.yaml"
        )
    _check_objectives(objectives, node)
    if sampler.pop("seed", None) is not None:
        raise UserError(
            "hydra.sweeper.sampler.seed is set from search.seed and the number of the trial: "
            "leave it out and give search.seed=…"
        )
    kind = str(sampler.get("_target_")).rpartition(".")[2]
    if kind not in _SAMPLERS:
        raise UserError(
            f"hydra/sweeper/sampler: {kind} keeps a state of its own, so that a resumed study "
            "would not be the same: expected tpe, random, grid, gp, nsgaii or nsgaiii"
        )


def _check_objectives(objectives: Sequence[Objective], node: dict[str, Any]) -> None:
    if not objectives:
        raise UserError("search.objectives is empty: expected e.g. {val/dice: maximize}")
    for one in objectives:
        if "test" in one.key.lower():
            raise UserError(
                f"search.objectives names {one.key}: a search never sees the test set; expected a "
                "validation score, e.g. val/dice"
            )
        wanted = "maximize" if one.key.startswith("val/") else "minimize"
        if not one.key.startswith("val/") and one.key not in COSTS:
            raise UserError(
                f"search.objectives names {one.key}: expected val/dice, another validation score, "
                f"or one of {', '.join(COSTS)}"
            )
        if one.direction != wanted:
            raise UserError(f"search.objectives: {one.key}: {one.direction}, expected {wanted}")
    if node["stop"] is not None and (len(objectives) > 1 or objectives[0].key in COSTS):
        raise UserError(
            "search.stop compares one validation score: set search.stop=null for several "
            "objectives or a cost"
        )


def _split(overrides: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Overrides with one value, and ranges by key (``align.temperature=interval(0.03,0.2)``)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    fixed, ranges = [], {}
    for parsed in OverridesParser.create().parse_overrides(list(overrides)):
        if parsed.is_sweep_override():
            ranges[parsed.get_key_element()] = str(parsed.input_line).partition("=")[2]
        else:
            fixed.append(str(parsed.input_line))
    return fixed, ranges


def _plain(node: DictConfig) -> dict[str, Any]:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(node, resolve=True)
