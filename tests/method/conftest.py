"""Batches for the step of a method."""

import numpy as np
import pytest

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


@pytest.fixture
def case(compose_smoke):
    """Case of some overrides; evaluation mode, so that passes can be repeated."""

    def make(*overrides):
        made = Case(compose_smoke(*overrides), LATE)
        made.method.train(False)
        return made

    return make
