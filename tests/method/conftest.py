"""Batches for the step of a method."""

import numpy as np
import pytest
import torch
from torch import nn

from semimedref.evaluate import prepare
from semimedref.method.schedule import Progress
from semimedref.run import Parts

LATE = Progress(19, 5, 20)


class Case:
    """A method of the smoke scale, with a labeled and an unlabeled batch."""

    def __init__(self, cfg, at, n=3):
        self.parts = Parts.build(cfg)
        self.method, self.at = self.parts.method, at
        u = np.random.default_rng(0).random((n, self.method.draws), dtype=np.float32)
        known = self.parts.pool("train", list(range(n)))
        others = self.parts.pool("train", list(range(n, 2 * n)), masks=False)
        self.method.begin(known, others)
        labeled, other = known.fetch(range(n), u), others.fetch(range(n), u)
        plan = self.method.plan(other, at)
        self.labeled = prepare(self.method, labeled, self.parts.hardware)
        self.unlabeled = prepare(self.method, other, self.parts.hardware, plan=plan)

    def step(self):
        return self.method.step(self.labeled, self.unlabeled, self.at)


def spread(network):
    """Another network than the student, with logits of ordinary size."""
    g = torch.Generator().manual_seed(4)
    for key, p in network.named_parameters():
        if not key.startswith("text_encoder.") and p.dim() < 2:
            p.data = 0.5 + 0.3 * torch.randn(p.shape, generator=g)


@torch.no_grad()
def another_teacher(made):
    """A teacher that is not the student, and calls about half of the pixels a lesion."""
    network = made.method.teacher.network
    spread(network)
    image = network.normalized(made.method.views.weak(made.unlabeled).image)
    text = network.encode_text(made.unlabeled.text)

    for head, pick in heads_of(network):
        first = pick(network.outputs(image, text)).median()
        head.bias[-1] += 1
        head.bias[-1] -= 1 + first / (pick(network.outputs(image, text)).median() - first)
        share = (pick(network.outputs(image, text)) > 0).float().mean()
        assert 0.2 < share < 0.8, share


def heads_of(network):
    """The last convolution of each output."""
    if hasattr(network, "background"):
        target, background = network.target.modules(), network.background.modules()
        yield last_convolution(background), lambda found: found.extra["background"]
        yield last_convolution(target), lambda found: found.logits
    else:
        yield last_convolution(network.modules()), lambda found: found.logits


def last_convolution(modules):
    return [m for m in modules if isinstance(m, nn.Conv2d) and m.bias is not None][-1]


def could_learn(network):
    """What the teacher never does: a step that lets gradients pass would now be seen."""
    for key, p in network.named_parameters():
        if not key.startswith("text_encoder."):  # shared with the student
            p.requires_grad_(True)
    return network


@pytest.fixture
def case(compose_smoke):
    """Case of some overrides; evaluation mode, so that passes can be repeated."""

    def make(*overrides):
        made = Case(compose_smoke(*overrides), LATE)
        made.method.train(False)
        return made

    return make
