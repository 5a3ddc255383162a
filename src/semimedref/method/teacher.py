"""The EMA teacher: theta_T <- m theta_T + (1 - m) theta_S after every optimizer step."""

from __future__ import annotations

import torch

from semimedref.model.segmenter import Segmenter


class Teacher:
    """A twin of the student that follows it; eval mode, never a gradient."""

    def __init__(self, student: Segmenter) -> None:
        self.network = student.twin()

    @torch.no_grad()
    def follow(self, student: Segmenter, *, momentum: float) -> None:
        """One EMA update of parameters and float buffers; integer buffers are copied."""
        mine, theirs = [], []
        for ours, other in _pairs(self.network, student):
            if ours.dtype.is_floating_point:
                mine.append(ours)
                theirs.append(other)
            else:
                ours.copy_(other)
        torch._foreach_lerp_(mine, theirs, 1 - momentum)


def _pairs(teacher: Segmenter, student: Segmenter) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tensors of the teacher that are its own, each with the student's."""
    other = dict(student.named_parameters()) | dict(student.named_buffers())
    own = [*teacher.named_parameters(), *teacher.named_buffers()]
    return [(t, other[name]) for name, t in own if t is not other[name]]
