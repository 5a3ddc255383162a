"""The student: labeled and strong views in one forward and backward pass against two passes."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.measure import Comparison, compare
from benchmarks.size import Size
from semimedref.config import compose
from semimedref.evaluate import prepare
from semimedref.intensity import standardize
from semimedref.model.segmenter import TextFeatures
from semimedref.run import Parts


def run(size: Size) -> list[Comparison]:
    """Forward, both losses, backward; no augmentation, teacher or optimizer."""
    passes = _Passes(Parts.build(compose(list(size.cpu))))
    passes.check()
    n = passes.half
    return [
        compare(
            "student_pass",
            f"forward and backward, {n} + {n} images",
            ours=(f"one pass of {2 * n}", passes.shared),
            obvious=(f"two passes of {n}", passes.separate),
            size=size,
            note="equal gradients in evaluation mode; BatchNorm sees all images or half of them",
        )
    ]


class _Passes:
    """One batch of the CPU scale, its first half labeled; masks stand in for pseudo-masks."""

    def __init__(self, parts: Parts) -> None:
        self.half = parts.cfg.trainer.batch_size
        self.student, self.loss = parts.method.student, parts.method.loss
        fetched = parts.pool("train").fetch(range(2 * self.half))
        batch = prepare(parts.method, fetched, parts.hardware)
        self.image, self.target = standardize(batch.image), batch.mask
        self.text = self.student.encode_text(batch.text)
        self.student.train()

    def shared(self) -> None:
        """As method/teacher_student.py does it."""
        self.student.zero_grad(set_to_none=True)
        logits, n = self.student(self.image, self.text), self.half
        loss_sup = self.loss(logits[:n], self.target[:n])
        (loss_sup + self.loss(logits[n:], self.target[n:])).backward()

    def separate(self) -> None:
        """A forward pass for each branch."""
        self.student.zero_grad(set_to_none=True)
        first, second = slice(0, self.half), slice(self.half, None)
        (self._branch(first) + self._branch(second)).backward()

    def check(self) -> None:
        """Both give the same gradients where BatchNorm does not look at the batch."""
        self.student.eval()
        self.shared()
        expected = self._gradients()
        self.separate()
        for name, found in self._gradients().items():  # relative: most gradients are small
            if torch.dist(found, expected[name]) > 1e-3 * expected[name].norm():
                raise AssertionError(f"the gradient of {name} is another in two passes")
        self.student.train()

    def _branch(self, part: slice) -> Tensor:
        text = TextFeatures(
            tokens=self.text.tokens[part], mask=self.text.mask[part], pooled=self.text.pooled[part]
        )
        return self.loss(self.student(self.image[part], text), self.target[part])

    def _gradients(self) -> dict[str, Tensor]:
        learns = ((k, p) for k, p in self.student.named_parameters() if p.requires_grad)
        return {k: p.grad.clone() for k, p in learns}
