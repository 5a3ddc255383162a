"""The teacher's update: one foreach call against a Python loop over the tensors."""

from __future__ import annotations

import torch

from benchmarks.measure import Comparison, compare
from benchmarks.size import Size
from semimedref.config import build, compose
from semimedref.method.teacher import Teacher
from semimedref.model.segmenter import Segmenter

_MOMENTUM = 0.99


def run(size: Size) -> list[Comparison]:
    """Against the usual two operations a tensor, and against one ``lerp_`` a tensor."""
    rows = []
    for label, overrides in size.networks.items():
        student = build(compose(list(overrides)), "model")
        _check(student)
        learns = sum(p.numel() for p in student.parameters() if p.requires_grad)
        for name, loop in (("loop: mul_, add_", _mul_add), ("loop: lerp_", _lerp)):
            teacher = Teacher(student)
            rows.append(
                compare(
                    "ema",
                    f"MMI-UNet, {label}, {learns / 1e6:.1f} M weights",
                    ours=("Teacher.follow, foreach", _following(teacher, student)),
                    obvious=(name, lambda f=loop, t=teacher, s=student: f(t.network, s)),
                    size=size,
                )
            )
    return rows


def _following(teacher: Teacher, student: Segmenter) -> object:
    return lambda: teacher.follow(student, momentum=_MOMENTUM)


@torch.no_grad()
def _mul_add(teacher: Segmenter, student: Segmenter) -> None:
    for ours, other in _tensors(teacher, student):
        if ours.dtype.is_floating_point:
            ours.mul_(_MOMENTUM).add_(other, alpha=1 - _MOMENTUM)
        else:
            ours.copy_(other)


@torch.no_grad()
def _lerp(teacher: Segmenter, student: Segmenter) -> None:
    for ours, other in _tensors(teacher, student):
        if ours.dtype.is_floating_point:
            ours.lerp_(other, 1 - _MOMENTUM)
        else:
            ours.copy_(other)


def _tensors(teacher: Segmenter, student: Segmenter) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Parameters and buffers in pairs, without the frozen text encoder, which both share."""
    pairs = [
        *zip(teacher.parameters(), student.parameters(), strict=True),
        *zip(teacher.buffers(), student.buffers(), strict=True),
    ]
    return [(ours, other) for ours, other in pairs if ours is not other]


def _check(student: Segmenter) -> None:
    """All three ways lead to the same teacher."""
    teachers = [Teacher(student) for _ in range(3)]
    with torch.no_grad():
        for p in student.parameters():
            if p.requires_grad:
                p.add_(0.1)
    teachers[0].follow(student, momentum=_MOMENTUM)
    _mul_add(teachers[1].network, student)
    _lerp(teachers[2].network, student)
    expected = teachers[0].network.trainable_state()
    for teacher in teachers[1:]:
        torch.testing.assert_close(teacher.network.trainable_state(), expected)
