"""How much of our step is spent outside the networks, the backward pass and the optimizer."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import torch

from semimedref.trainer import Trainer


class Regions:
    """Time inside the calls that a step cannot do without; nested calls count once.

    Networks with text encoder and projection heads, ``backward``, clipping and the optimizer. All
    else is the rest: data, host plan, views, mixing, losses, EMA.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.clock, self.inside, self._depth = clock, 0.0, 0

    def timed(self, call: Callable[..., object]) -> Callable[..., object]:
        """The same call, whose time is added to ``inside``."""

        def run(*args: object, **named: object) -> object:
            self._depth += 1
            start = self.clock()
            try:
                return call(*args, **named)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.inside += self.clock() - start

        return run


def rest_share(trainer: Trainer, step: Callable[[], object], steps: int) -> float:
    """Share of some calls of ``step`` that is not networks, backward pass and optimizer."""
    regions, method = Regions(), trainer.method
    networks = (method.student, method.teacher.network, method.student.text_encoder)
    calls = [(network, "forward") for network in networks]
    calls += [(method.student, "image_features"), (method.align, "embed_image")]
    calls += [(method.align, "embed_text"), (torch.Tensor, "backward")]
    calls += [(torch.nn.utils, "clip_grad_norm_")]
    calls += [(trainer.optimizer, "zero_grad"), (trainer.optimizer, "step")]
    with ExitStack() as patches:
        for owner, name in calls:
            timed = regions.timed(getattr(owner, name))
            patches.enter_context(mock.patch.object(owner, name, timed))
        start = regions.clock()
        for _ in range(steps):
            step()
        return 1 - regions.inside / (regions.clock() - start)
