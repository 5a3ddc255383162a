"""The EMA teacher: theta_T <- m theta_T + (1 - m) theta_S after every optimizer step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from semimedref.model.segmenter import Segmenter

Place = dict[str, Tensor | None]  # a module's own parameters or buffers


class Teacher:
    """A twin of the student that follows it; eval mode, never a gradient."""

    def __init__(self, student: Segmenter) -> None:
        self.network = student.twin()
        self._places: list[tuple[Place, Place]] = []
        self._student: Segmenter | None = None

    @contextmanager
    def training(self) -> Iterator[None]:
        """Passes in training mode: batch norm uses the statistics of each batch."""
        self.network.train()
        try:
            yield
        finally:
            self.network.eval()

    @torch.no_grad()
    def follow(self, student: Segmenter, *, momentum: float) -> None:
        """One EMA update of parameters and float buffers; integer buffers are copied."""
        mine, theirs = [], []
        if self._student is not student:  # names are matched once: it takes longer than the update
            self._places, self._student = _own_places(self.network, student), student
        for ours, other in _pairs(self._places):
            if ours.dtype.is_floating_point:
                mine.append(ours)
                theirs.append(other)
            else:
                ours.copy_(other)
        torch._foreach_lerp_(mine, theirs, 1 - momentum)


def _own_places(teacher: Segmenter, student: Segmenter) -> list[tuple[Place, Place]]:
    """Where the teacher's own tensors are kept, each with the student's; modules may be shared."""
    other = dict(student.named_modules())
    twins = ((part, other[name]) for name, part in teacher.named_modules())
    own = [(part, twin) for part, twin in twins if part is not twin]
    parameters = [(part._parameters, twin._parameters) for part, twin in own]
    buffers = [(part._buffers, twin._buffers) for part, twin in own]
    return [(mine, theirs) for mine, theirs in (*parameters, *buffers) if mine]


def _pairs(places: list[tuple[Place, Place]]) -> Iterator[tuple[Tensor, Tensor]]:
    """The teacher's tensors, each once and with the student's."""
    seen: set[int] = set()
    for mine, theirs in places:
        for name, tensor in mine.items():
            if tensor is not None and tensor is not theirs[name] and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor, theirs[name]
