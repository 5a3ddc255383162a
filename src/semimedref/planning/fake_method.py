"""A method whose tensors have shapes and no data: the real step runs on it in no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from semimedref.augment.plan import Plan
from semimedref.config import build
from semimedref.dataset.sample import Batch
from semimedref.method.contract import Method
from semimedref.model.segmenter import TextInput
from semimedref.planning.meter import FusedAttention
from semimedref.results.cost import without_files
from semimedref.text.vocabulary import vocabulary as look_up

_CANDIDATES = 8  # sentences of a strong view, at least as many as any mixer plans; one is read


@dataclass(frozen=True)
class FakeMethod:
    """The method of a configuration on fake tensors."""

    method: Method
    mode: FakeTensorMode
    regions: int  # of a position label
    side: int  # of the images, in pixels
    networks: list[nn.Module] = field(default_factory=list)  # all that has weights

    @contextmanager
    def running(self) -> Iterator[None]:
        """Where tensors are made and steps are run."""
        with self.mode, FusedAttention():
            yield

    def batch(self, size: int, *, labeled: bool) -> Batch:
        """A batch on the device; an unlabeled one with the plan of its strong view."""
        shape = (size, 1, self.side, self.side)
        return Batch(
            image=torch.empty(shape),
            mask=torch.empty(shape) if labeled else None,
            position=torch.empty(size, self.regions),
            uniform=torch.empty(size, self.method.draws),
            index=torch.empty(size, dtype=torch.int64),
            sentences=("",) * size,
            text=self._text(size),
            plan=None if labeled else self.method.rehearsal(self._plan(size), self.side),
        )

    def _plan(self, size: int) -> Plan:
        return Plan(
            sentences=(("",) * _CANDIDATES,) * size,
            donor=torch.empty(size, dtype=torch.int64),
            box=torch.empty(size, 4, dtype=torch.int64),
            allowed=torch.empty(size, dtype=torch.bool),
            flip=torch.empty(size, dtype=torch.bool),
            texts=self._text(size * _CANDIDATES),
        )

    def _text(self, size: int) -> TextInput | None:
        """What a text encoder gets for so many sentences; cached features are rows of a table."""
        encoder = getattr(self.method.student, "text_encoder", None)
        if encoder is None:
            return None
        length = getattr(encoder, "max_tokens", encoder.width)
        if getattr(encoder, "cache", length == 0):
            return TextInput(None, None, rows=torch.empty(size, dtype=torch.int64))
        ids = torch.empty(size, length, dtype=torch.int64)
        return TextInput(ids, torch.empty(size, length, dtype=torch.bool), rows=None)


def fake_method(config: Mapping[str, Any]) -> FakeMethod:
    """Build the method that a resolved configuration names, without weights, files and memory."""
    from omegaconf import OmegaConf

    cfg = OmegaConf.create({**config, "method": without_files(config["method"])})
    with torch.device("meta"):
        method = build(cfg, "method")
    mode = FakeTensorMode()
    fake = _faker(mode)
    networks = [part for part in vars(method).values() if isinstance(part, nn.Module)]
    if hasattr(method, "teacher"):
        networks.append(method.teacher.network)
    for part in (p for network in networks for p in network.modules()):
        for tensors in (part._parameters, part._buffers):
            tensors.update({k: fake(t) for k, t in tensors.items() if t is not None})
    for name, value in vars(method).items():
        if isinstance(value, Tensor):
            setattr(method, name, fake(value))
    regions = len(look_up(config["dataset"]["vocabulary"]).regions)
    return FakeMethod(method, mode, regions, int(config["scale"]["image_side"]), networks)


def _faker(mode: FakeTensorMode) -> Callable[[Tensor], Tensor]:
    """Turns a tensor into a fake one; what was one tensor stays one."""
    made: dict[int, Tensor] = {}

    def fake(tensor: Tensor) -> Tensor:
        if id(tensor) not in made:
            with mode:
                new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            if isinstance(tensor, nn.Parameter):
                new = nn.Parameter(new, tensor.requires_grad)
            made[id(tensor)] = made[id(new)] = new
        return made[id(tensor)]

    return fake
