"""Count a training step, a scored image and a checkpoint of a method, on tensors without data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from semimedref.axis import Axis
from semimedref.planning.checkpoint_size import checkpoint_bytes, optimizer_state
from semimedref.planning.fake_method import FakeMethod
from semimedref.planning.meter import Meter
from semimedref.planning.stages import Stage

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_THRESHOLD = 0.5  # of a mask; any number costs the same


@dataclass(frozen=True)
class StepCount:
    """One micro-batch: forward, backward, and all that is in memory at its fullest moment."""

    flops: int
    kernels: int
    memory: int  # bytes: weights, gradients, AdamW's averages, activations


@dataclass(frozen=True)
class Pass:
    """One reading of an image in an evaluation."""

    flops: float  # of an image
    kernels: float  # of an image, when scored in batches


@dataclass(frozen=True)
class MethodFacts:
    """What does not depend on the step: evaluations, checkpoints, sizes."""

    validation: Pass  # of a validation image, once an epoch
    test: Pass  # of a test image: all readings at the end together
    best_bytes: int
    last_bytes: int
    weights_bytes: int  # of everything that has to be on the GPU
    trainable: int
    pretrained_bytes: int  # of encoders whose weights come from elsewhere
    segments: bool
    selects_on: str  # the split that is scored once an epoch


def count_step(fake: FakeMethod, config: Mapping[str, Any], stage: Stage) -> StepCount:
    """The cost of one micro-batch at a stage of training."""
    method, size = fake.method, config["trainer"]["batch_size"]
    learns = _learning(fake)
    if not learns:
        return StepCount(0, 0, _bytes(_tensors(fake)))
    with fake.running():
        method.train()
        labeled = fake.batch(size, labeled=True)
        unlabeled = fake.batch(size, labeled=False) if stage.unlabeled else None
        for parameter in learns:
            parameter.grad = None
        with Meter() as meter:
            with _autocast(config):
                loss = method.step(labeled, unlabeled, stage.at)["loss"]
            loss.backward()
            del loss
        for parameter in learns:
            parameter.grad = None
    weights, learning = _bytes(_tensors(fake)), _bytes(learns)
    # AdamW holds two averages of each weight; its step needs room for one more beside the
    # gradients, when the activations are gone.
    fullest = max(meter.peak, 2 * learning)
    return StepCount(meter.flops, meter.kernels, weights + 2 * learning + fullest)


def count_facts(fake: FakeMethod, config: Mapping[str, Any]) -> MethodFacts:
    """Evaluations and files of a method."""
    method, learns = fake.method, _learning(fake)
    routes: list[str | None] = [None] * (2 if method.segments else 1)  # with shuffled texts, too
    routes += [Axis(**how).route for how in method.axes]
    size = int(config["hardware"]["eval_batch_size"])
    passes = {route: _count_pass(fake, config, route, size=size) for route in {*routes}}
    test = [passes[route] for route in routes]
    with fake.running():
        state = method.state_dict()
        best = {"epoch": 0, "val/dice": 0.0, "weights": method.weights()}
        last = {"method": state, "optimizer": optimizer_state(method.parameter_groups())}
    return MethodFacts(
        validation=passes[None],
        test=Pass(sum(p.flops for p in test), sum(p.kernels for p in test)),
        best_bytes=checkpoint_bytes(best),
        last_bytes=checkpoint_bytes(last, resumable=True),
        weights_bytes=_bytes(_tensors(fake)),
        trainable=sum(p.numel() for p in learns),
        pretrained_bytes=_pretrained(fake, config),
        segments=bool(method.segments),
        selects_on=method.selects_on,
    )


def _count_pass(
    fake: FakeMethod, config: Mapping[str, Any], route: str | None, *, size: int
) -> Pass:
    if not _learning(fake):
        return Pass(0.0, 0.0)
    with fake.running(), torch.no_grad():
        fake.method.train(False)
        batch = fake.batch(size, labeled=True)
        with Meter() as meter:
            fake.method.measure(batch, threshold=_THRESHOLD, weights="student", route=route)
    return Pass(meter.flops / size, meter.kernels / size)


def _autocast(config: Mapping[str, Any]) -> AbstractContextManager[object]:
    dtype = _DTYPES.get(config["trainer"]["precision"])
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype=dtype)


def _learning(fake: FakeMethod) -> list[nn.Parameter]:
    return [p for group in fake.method.parameter_groups() for p in group["params"]]


def _tensors(fake: FakeMethod) -> list[Tensor]:
    found = [t for n in fake.networks for t in (*n.parameters(), *n.buffers())]
    return list({id(t): t for t in found}.values())


def _bytes(tensors: list[Any]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _pretrained(fake: FakeMethod, config: Mapping[str, Any]) -> int:
    """Bytes of the encoders that a hub serves; one that only a twin shares counts once."""
    model = config["method"].get("model") or {}
    hub = [
        name
        for name in ("image_encoder", "text_encoder")
        if str((model.get(name) or {}).get("weights", "")).startswith("hub:")
    ]
    parts = [getattr(fake.method.student, name, None) for name in hub]
    return sum(_bytes(list(part.parameters())) for part in parts if part is not None)
