"""How many optimizer steps a run takes, and which of them cost the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from semimedref.dataset.loaders import steps_per_epoch
from semimedref.method.schedule import Progress, Schedule
from semimedref.stages import Stages

_SCHEDULE = "semimedref.method.schedule.Schedule"


@dataclass(frozen=True)
class Stage:
    """A kind of step.

    Attributes:
        unlabeled: there is a batch of unlabeled images.
        burn_in: only labeled images count yet.
        skips: the unlabeled branch is off.
        at: a step of this kind; it names the method's own stage, where it has several.
    """

    unlabeled: bool
    burn_in: bool
    skips: bool
    at: Progress

    @property
    def key(self) -> str:
        """What tells it from other kinds."""
        parts = {"unlabeled": self.unlabeled, "burn_in": self.burn_in, "skips": self.skips}
        named = [f"stage_{self.at.stage}"] if self.at.stage else []
        return "-".join([*(name for name, on in parts.items() if on), *named]) or "labeled"


@dataclass(frozen=True)
class Length:
    """How long a run is."""

    epochs: int
    steps_per_epoch: int
    micro_batches: int  # of a step

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.epochs * self.steps_per_epoch


def length_of(config: Mapping[str, Any], *, labeled: int, unlabeled: int) -> Length:
    """The length of a run over so many images, as the trainer has it."""
    trainer = config["trainer"]
    steps = trainer["steps_per_epoch"]
    if steps is None:
        native = trainer["steps"] == "native" and not uses_unlabeled(config)
        steps = steps_per_epoch(
            labeled,
            0 if native else unlabeled,
            batch_size=trainer["batch_size"],
            accumulate=trainer["accumulate"],
        )
    return Length(trainer["epochs"], steps, trainer["accumulate"])


def stages_of(
    config: Mapping[str, Any], length: Length, *, unlabeled: bool, done: int = 0
) -> dict[Stage, int]:
    """Every kind of step that is still to be taken after ``done`` steps, and how often."""
    reads = unlabeled and uses_unlabeled(config)
    node = config["method"].get("schedule")
    known = isinstance(node, Mapping) and node.get("_target_") == _SCHEDULE
    rule = tuple(sorted((k, v) for k, v in node.items() if k != "_target_")) if known else None
    found, start = {}, 0
    parts = own_stages(config, length.epochs)
    for name, epochs in zip(parts.names, parts.lengths, strict=True):
        part = replace(length, epochs=epochs)
        kinds = _kinds(rule, part, min(max(done - start, 0), part.steps), name)
        found |= {Stage(reads, *kind, at): number for kind, (at, number) in kinds.items()}
        start += part.steps
    return found


def own_stages(config: Mapping[str, Any], epochs: int) -> Stages:
    """The stages that a method's configuration names, as the trainer has them; else one."""
    return Stages(config["method"].get("stages") or {}, epochs)


@lru_cache(maxsize=256)  # the runs of a table have few lengths
def _kinds(
    rule: tuple[tuple[str, Any], ...] | None, length: Length, done: int, stage: str
) -> dict[tuple[bool, bool], tuple[Progress, int]]:
    """Whether a step is in burn-in and skips the unlabeled branch; an example, and how often."""
    last = Progress(length.steps - 1, length.steps_per_epoch, length.steps, stage)
    if rule is None:
        return {(False, False): (last, length.steps - done)} if done < length.steps else {}
    schedule = Schedule(**dict(rule))
    found: Counter[tuple[bool, bool]] = Counter()
    example: dict[tuple[bool, bool], Progress] = {}
    for step in range(done, length.steps):
        at = replace(last, step=step)
        kind = schedule.in_burn_in(at), schedule.skips_unlabeled(at)
        found[kind] += 1
        example[kind] = at  # the last one: weights that rise are above zero there
    return {kind: (example[kind], number) for kind, number in found.items()}


def uses_unlabeled(config: Mapping[str, Any]) -> bool:
    """Whether the method asks for unlabeled images; nothing is built."""
    from hydra.utils import get_object

    return bool(get_object(config["method"]["_target_"]).uses_unlabeled)
