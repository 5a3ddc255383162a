"""What one run still costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semimedref.planning.counts import Counts, UncountableError
from semimedref.planning.disk import cache_of, folder_bytes
from semimedref.planning.gpu import Gpu, precision_of
from semimedref.planning.images import Images, UnknownImagesError, images_of
from semimedref.planning.stages import length_of, own_stages, stages_of

if TYPE_CHECKING:
    from semimedref.planning.count import Pass, StepCount


@dataclass(frozen=True)
class RunPlan:
    """The rest of a run; all zero if it is done.

    Attributes:
        name: its folder.
        state: done, running, queued, failed, paused or missing.
        steps: optimizer steps to take.
        flops: operations of these steps and of the evaluations.
        seconds: on the GPU.
        memory: bytes on the GPU, without what the GPU keeps for itself.
        end_bytes: what its folder will hold.
        last_bytes: one ``last.pt``, which goes when the run is done.
        cache: the pixel cache that it reads, and its bytes.
        pretrained_bytes: of weights that a hub serves.
        earliest: the first epoch after which it may stop early, and the number of epochs.
        unknown: why it could not be planned.
        after: names of the runs that it starts from.
    """

    name: str
    state: str
    steps: int = 0
    flops: float = 0.0
    seconds: float = 0.0
    memory: int = 0
    end_bytes: int = 0
    last_bytes: int = 0
    cache: tuple[str, int] = ("", 0)
    pretrained_bytes: int = 0
    earliest: tuple[int, int] | None = None
    unknown: str = ""
    after: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether anything is left to do."""
        return self.state != "done"

    @property
    def gpu_hours(self) -> float:
        """Of one GPU."""
        return self.seconds / 3600


def plan_run(
    name: str,
    config: Mapping[str, Any],
    *,
    state: str,
    epochs_done: int,
    gpu: Gpu,
    counts: Counts,
) -> RunPlan:
    """The cost of what is left of a run, after the epochs that its folder shows."""
    if state == "done":
        return RunPlan(name, state)
    try:
        images, facts = images_of(config), counts.facts()
        work = _work(config, images, epochs_done, counts=counts, gpu=gpu)
    except (UnknownImagesError, UncountableError) as error:
        return RunPlan(name, state, unknown=str(error))
    best, segments = facts.best_bytes, facts.segments
    return RunPlan(
        name=name,
        state=state,
        steps=work.steps,
        flops=work.flops,
        seconds=work.seconds,
        memory=max(facts.weights_bytes, work.memory),
        end_bytes=folder_bytes(config, images=images, best=best, segments=segments),
        last_bytes=facts.last_bytes,
        cache=cache_of(config, images),
        pretrained_bytes=facts.pretrained_bytes,
        earliest=_earliest(config),
    )


@dataclass(frozen=True)
class _Work:
    """Steps and evaluations."""

    steps: int
    flops: float
    seconds: float
    memory: int


def _work(
    config: Mapping[str, Any], images: Images, epochs_done: int, *, counts: Counts, gpu: Gpu
) -> _Work:
    precision, facts = precision_of(config, gpu), counts.facts()
    length = length_of(config, labeled=images.labeled, unlabeled=images.unlabeled)
    done = min(epochs_done, length.epochs)
    stages = stages_of(
        config, length, unlabeled=images.unlabeled > 0, done=done * length.steps_per_epoch
    )
    steps = [(counts.step(stage), n * length.micro_batches) for stage, n in stages.items()]
    scored = images.test if facts.selects_on == "test" else images.valid
    passes = [(facts.validation, scored * (length.epochs - done)), (facts.test, images.test)]
    all_parts: list[tuple[StepCount | Pass, int]] = [*steps, *passes]
    return _Work(
        steps=sum(stages.values()),
        flops=sum(n * part.flops for part, n in all_parts),
        seconds=sum(
            n * gpu.seconds(part.flops, kernels=part.kernels, precision=precision)
            for part, n in all_parts
        ),
        memory=max((step.memory for step, _ in steps), default=0),
    )


def _earliest(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """When a run may stop early: the first epoch is the best so far, then patience runs out.

    So does each of its stages.
    """
    trainer = config["trainer"]
    if trainer["patience"] is None:
        return None
    shortest = max(trainer["min_epochs"], 1 + trainer["patience"])
    first = sum(min(shortest, epochs) for epochs in own_stages(config, trainer["epochs"]).lengths)
    return (first, trainer["epochs"]) if first < trainer["epochs"] else None
