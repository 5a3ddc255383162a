"""A whole Semi-MedRef step as our trainer does it against the pattern of the published release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.ledger import Ledger, Traffic, rest_share
from benchmarks.measure import Comparison, compare
from benchmarks.release_step import ReleaseSteps
from benchmarks.size import PAPER, Size
from semimedref.config import compose
from semimedref.dataset.sample import Batch
from semimedref.evaluate import prepare
from semimedref.run import Parts

_METHOD = ("method=teacher_student", "augment=semi_medref", "align=pacl")


def run(size: Size) -> list[Comparison]:
    """Data, plan, teacher, mixing, student, PACL, backward, AdamW, EMA; after burn-in."""
    return [_compared(label, overrides, size) for label, overrides in size.steps.items()]


def _compared(label: str, overrides: tuple[str, ...], size: Size) -> Comparison:
    if label.startswith(PAPER):
        overrides = (*overrides, f"trainer.batch_size={size.paper_batch}")
    with TemporaryDirectory() as folder:
        ours, release = pair(overrides, Path(folder))
        check(ours, release)
        filled = ours.fill_table()
        row = compare(
            "step",
            f"{label}, {ours.half} + {ours.half} images",
            ours=("Trainer, teacher_student", ours),
            obvious=("pattern of the release", release),
            size=size,
        )
        rest = rest_share(ours.trainer, ours, row.repeats)
        bound = _operations(release) / _operations(ours)
    speed = 2 * ours.half / row.ours_seconds
    note = (
        f"{speed:.2f} images/s; the release's pattern takes {bound:.2f} times our operations, "
        f"{100 * row.ratio / bound:.0f} % of that is reached; {100 * rest:.1f} % of our step is "
        f"not networks, backward pass and optimizer{filled}"
    )
    return replace(row, note=note)


def _operations(step: Callable[[], object]) -> float:
    """Multiplications and additions of one step: what bounds the ratio at equal precision."""
    with Traffic(Ledger()) as traffic:
        step()
    return sum(traffic.flop.values())


def pair(overrides: tuple[str, ...], folder: Path) -> tuple[OurSteps, ReleaseSteps]:
    """Both ways with equal weights and data; only ours may cache sentences."""
    uncached = "text_encoder.cache=false"
    cfgs = [compose([*overrides, *_METHOD, *more]) for more in ([], [uncached])]
    ours, release = (Parts.build(cfg) for cfg in cfgs)
    for parts in (ours, release):
        with torch.no_grad():  # an untrained teacher is sure of nothing: no patch would be pasted
            parts.method.teacher.network.head.out.bias.add_(1.0)
    return OurSteps(ours, folder), ReleaseSteps(release, folder)


class OurSteps:
    """One optimizer step of the real training loop a call, from the middle of training on."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self.trainer = parts.trainer(folder, lambda: None)
        self.trainer.step = self.trainer.total_steps // 2
        self.half = self.trainer.config.batch_size

    def __call__(self) -> None:
        self.trainer.sums = {}
        self.trainer._optimize(self.trainer.data[self.trainer.step])

    def losses(self, labeled: Batch, unlabeled: Batch) -> dict[str, Tensor]:
        """The terms of the objective for two batches of the loader."""
        trainer, method = self.trainer, self.trainer.method
        plan = method.plan(unlabeled, trainer.progress)
        known = prepare(method, labeled, trainer.hardware)
        other = prepare(method, unlabeled, trainer.hardware, plan=plan)
        return method.step(known, other, trainer.progress)

    def fill_table(self) -> str:
        """Sentences of all steps so far into the cached table, as training would have done."""
        trainer, encoder = self.trainer, self.trainer.method.student.text_encoder
        if not encoder.cache:
            return ""
        middle = trainer.step
        for trainer.step in range(middle):
            ((labeled, unlabeled),) = trainer.data[trainer.step]
            trainer.method.prepare_text([*labeled.sentences, *unlabeled.sentences])
            trainer.method.plan(unlabeled, trainer.progress)
        trainer.step = middle
        return f"; {len(encoder._row)} sentences in the table, new ones are encoded in the step"


def check(ours: OurSteps, release: ReleaseSteps) -> None:
    """Equal losses and gradients where nothing is dropped and BatchNorm ignores the batch."""
    ((labeled, unlabeled),) = ours.trainer.data[ours.trainer.step]
    methods = [way.trainer.method for way in (ours, release)]
    dropout = methods[0].text_dropout
    for method in methods:
        method.train(False)
        method.text_dropout = False
    expected = ours.losses(labeled, unlabeled)
    found = release.losses(labeled, unlabeled, release.trainer.progress)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    gradients = []
    for method, terms in zip(methods, (expected, found), strict=True):
        terms["loss"].backward()
        parts = [*method.student.named_parameters(), *method.align.named_parameters()]
        gradients.append([(k, p.grad) for k, p in parts if p.requires_grad])
        method.text_dropout = dropout
    for (name, one), (_, other) in zip(*gradients, strict=True):
        if torch.dist(one, other) > 1e-3 * one.norm() + 1e-7:
            raise AssertionError(f"the gradient of {name} is another in the release's pattern")
    for method in methods:
        method.student.zero_grad(set_to_none=True)
        method.align.zero_grad(set_to_none=True)
