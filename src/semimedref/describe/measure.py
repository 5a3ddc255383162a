"""Count a network on tensors without data: parameters, gradients, operations and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from semimedref.method.schedule import Progress
from semimedref.planning.count import count_step
from semimedref.planning.fake_method import FakeMethod
from semimedref.planning.meter import Meter
from semimedref.planning.stages import Stage

_START = Progress(0, 1, 1)
_IMAGES = 2  # of the step that looks for gradients


@dataclass(frozen=True)
class Part:
    """A part of a network.

    Attributes:
        name: of the attribute.
        parameters: all of its numbers that are parameters.
        trainable: those that learn.
        with_gradient: those that a labeled step reaches, or None if it cannot be counted.
        flops: of one image, or None if they cannot be counted.
    """

    name: str
    parameters: int
    trainable: int
    with_gradient: int | None
    flops: int | None


@dataclass(frozen=True)
class Measured:
    """What a network costs; None where a step cannot be counted without data.

    Attributes:
        total: the whole network.
        parts: its top-level parts.
        batch: labeled images of a training step.
        memory: bytes of such a step.
        uncounted: why numbers are missing.
    """

    total: Part
    parts: list[Part]
    batch: int
    memory: int | None
    uncounted: str | None


def measure(fake: FakeMethod, config: Mapping[str, Any]) -> Measured:
    """Count the network of a method that has no data."""
    network, batch = fake.method.student, int(config["trainer"]["batch_size"])
    if not count(network):
        return Measured(_part("total", network, set(), 0), [], batch, None, "it only counts masks")
    reached: set[int] | None = None
    flops: dict[str, int] | None = None
    memory, problem = None, None
    try:
        flops = _flops(fake)
        reached = _reached(fake)
        memory = count_step(fake, config, Stage(False, False, False, _START)).memory
    except (RuntimeError, NotImplementedError) as error:  # what torch raises without data
        problem = " ".join(str(error).split())[:160]
    parts = [
        _part(name, part, reached, None if flops is None else flops.get(name, 0))
        for name, part in network.named_children()
    ]
    own = nn.Module()
    own._parameters = network._parameters
    if list(own.parameters()):
        parts.append(_part("(own)", own, reached, None))
    total = _part("total", network, reached, None if flops is None else flops[""])
    return Measured(total, parts, batch, memory, problem)


def count(module: nn.Module, *, learning: bool = False) -> int:
    """Parameters of a module, shared ones once."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not learning)


def _part(name: str, module: nn.Module, reached: set[int] | None, flops: int | None) -> Part:
    with_gradient = None
    if reached is not None:
        with_gradient = sum(p.numel() for p in module.parameters() if id(p) in reached)
    return Part(name, count(module), count(module, learning=True), with_gradient, flops)


def _reached(fake: FakeMethod) -> set[int]:
    """The parameters that get a gradient in a labeled step."""
    parameters = [p for p in fake.method.student.parameters() if p.requires_grad]
    if not parameters:
        return set()
    with fake.running():
        fake.method.train()
        batch = fake.batch(_IMAGES, labeled=True)
        fake.method.step(batch, None, _START)["loss"].backward()
        reached = {id(p) for p in parameters if p.grad is not None}
        for p in parameters:
            p.grad = None
    return reached


def _flops(fake: FakeMethod) -> dict[str, int]:
    """Operations of one image and its sentence by part; the whole under the empty name."""
    network = fake.method.student
    with fake.running(), torch.no_grad():
        fake.method.train(False)
        batch = fake.batch(1, labeled=True)
        image = network.normalized(batch.image)
        with Meter() as meter, _attributed(network, meter) as parts:
            network(image, network.encode_text(batch.text))
    return parts | {"": meter.flops}


@contextmanager
def _attributed(network: nn.Module, meter: Meter) -> Iterator[dict[str, int]]:
    """Operations by top-level part; a network may call what is inside a part by itself."""
    found: dict[str, int] = {}
    running: list[int] = []

    def enter(module: nn.Module, inputs: object) -> None:
        running.append(meter.flops)

    def leave(name: str) -> Any:  # noqa: ANN401 - torch's hook
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            before = running.pop()
            if not running:
                found[name] = found.get(name, 0) + meter.flops - before

        return hook

    handles = [
        handle
        for name, part in network.named_children()
        for module in part.modules()
        for handle in (
            module.register_forward_pre_hook(enter),
            module.register_forward_hook(leave(name)),
        )
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
