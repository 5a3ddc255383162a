"""What the trainer knows of a method, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from semimedref.augment.plan import Plan
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress


class Method(Protocol):
    """One training method.

    Attributes:
        draws: random numbers that it needs for each sample.
        uses_unlabeled: whether it asks for that pool.
        student: the network that learns.
        selects: the validation score by which the best epoch is kept.
        segments: whether it predicts masks; if not, nothing that belongs to masks is written.
        routes: ways to supply a position token, by name; the first is the usual one.
        axes: further evaluations of the test set, each with ``route`` and ``removal``.
        removal_key: what decides whose positions an evaluation removes.
        removal_valid: share of the validation sentences without positions.
        stages: shares of the epochs by the name of each stage, in order; empty: there is one.
        reads_masks: whether its labeled images come with their masks.
        selects_on: the split whose score chooses the epochs: ``valid``; ``test`` only where a
            release does so, and then every table says it.
    """

    draws: int
    uses_unlabeled: bool
    student: nn.Module
    selects: str
    segments: bool
    routes: tuple[str, ...]
    axes: Sequence[Mapping[str, Any]]
    removal_key: str
    removal_valid: float
    stages: Mapping[str, float]
    reads_masks: bool
    selects_on: str

    def to(self, device: object) -> Method:
        """Move every network to the device."""
        ...

    def train(self, mode: bool = True) -> Method:
        """Switch the student between training and evaluation."""
        ...

    def networks(self) -> list[nn.Module]:
        """What a prediction runs through, the student first."""
        ...

    def check_side(self, side: int) -> None:
        """Refuse an image side that the networks cannot take."""
        ...

    def prepare_text(self, sentences: Sequence[str]) -> Any | None:  # noqa: ANN401
        """Sentences for the text encoder, on the host; None if none are read."""
        ...

    def start_from(self, name: str, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over the best weights of a run that the configuration names under ``needs``."""
        ...

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """See the whole pools, once before training; a resumed run begins again."""
        ...

    def enter(self, stage: str) -> None:
        """A further stage begins: the best weights of the one before are loaded."""
        ...

    def edit_labeled(self, batch: Batch) -> Batch:
        """A labeled batch on the host, with the sentences that the student is to read."""
        ...

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimizer; ``lr_scale`` multiplies the learning rate."""
        ...

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """What the host decides about an unlabeled batch before the step."""
        ...

    def rehearsal(self, plan: Plan, side: int) -> Any:  # noqa: ANN401
        """What ``plan`` would return, around the plan of one view, for a step without data.

        Whoever counts or checks a step calls it in the place of ``begin`` and ``plan``.
        """
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

    def predict(self, batch: Batch, *, weights: str, route: str | None = None) -> Tensor:
        """Foreground probability (B, 1, H, W) of the student or the teacher."""
        ...

    def measure(self, batch: Batch, *, threshold: float, weights: str, route: str | None) -> Tensor:
        """What the scores are made of, a row an image: counts of pixels, or probabilities."""
        ...

    def summarize(self, table: np.ndarray) -> dict[str, float]:
        """Scores of a set, from the rows of ``measure``."""
        ...

    def facts(self, side: int) -> dict[str, float]:
        """Further numbers for the result, such as what the networks cost."""
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
