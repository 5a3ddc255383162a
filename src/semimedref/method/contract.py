"""What the trainer knows of a method, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from semimedref.augment.plan import Plan
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress


class Method(Protocol):
    """One training method. ``draws`` numbers per sample; ``uses_unlabeled`` asks for that pool."""

    draws: int
    uses_unlabeled: bool
    student: nn.Module

    def to(self, device: object) -> Method:
        """Move every network to the device."""
        ...

    def train(self, mode: bool = True) -> Method:
        """Switch the student between training and evaluation."""
        ...

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer; ``lr_scale`` multiplies the learning rate."""
        ...

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """What the host decides about an unlabeled batch before the step."""
        ...

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Losses of one micro-batch; the entry ``loss`` is the one to minimize."""
        ...

    def after_step(self, progress: Progress) -> None:
        """What follows an optimizer step, such as the teacher's update."""
        ...

    def values(self, progress: Progress) -> dict[str, float]:
        """Scheduled numbers worth a line in the log."""
        ...

    def predict(self, batch: Batch, *, weights: str) -> Tensor:
        """Foreground probability (B, 1, H, W) of the student or the teacher."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, without frozen weights."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""
        ...

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The trainable weights by network (student, teacher), for ``best.pt``."""
        ...

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take back weights by name, for testing and prediction."""
        ...
