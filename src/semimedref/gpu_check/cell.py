"""Short trainings by the real trainer: built from overrides, run step by step, losses kept."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

from semimedref.config import compose
from semimedref.evaluate import prepare
from semimedref.expansion import hydra_value
from semimedref.gpu_check.accelerator import Accelerator
from semimedref.run import Parts
from semimedref.trainer import Trainer


@dataclass(frozen=True)
class Setup:
    """What every check gets.

    Attributes:
        settings: of conf/gpu_check/*.yaml.
        accelerator: the device, and what can be asked of it.
        folder: for files that nobody needs afterwards.
    """

    settings: Mapping[str, Any]
    accelerator: Accelerator
    folder: Path
    _rows: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ladder(self) -> dict[str, list[str]]:
        """Overrides of each row, the whole method last."""
        if not self._rows:
            base = compose([f"experiment={self.settings['ladder']}"])
            for label, changes in base.hydra.sweeper.rows.items():
                if label not in base.table.get("controls", ()):
                    self._rows[label] = [f"{k}={hydra_value(v)}" for k, v in changes.items()]
        return self._rows

    @property
    def last_row(self) -> list[str]:
        """Overrides of the whole method."""
        return list(self.ladder.values())[-1]

    def overrides(self, *more: str) -> list[str]:
        """Of a training on this machine."""
        return [*self.settings["hardware"], "tracking=off", f"run_root={self.folder}", *more]

    def trainer(self, *overrides: str) -> Trainer:
        """The trainer of a new cell, with initial weights."""
        parts = Parts.build(compose(self.overrides(*overrides)))
        folder = mkdtemp(dir=self.folder, prefix="cell-")
        return parts.trainer(Path(folder), lambda: None)


def middle(trainer: Trainer) -> Trainer:
    """The trainer in the middle of training, where every loss is on."""
    trainer.step = trainer.total_steps // 2
    return trainer


@torch.no_grad()
def sure_teacher(trainer: Trainer, shift: float) -> Trainer:
    """The trainer with a teacher that is far from every threshold.

    All probabilities of an untrained one are at the threshold: rounding would turn its labels.
    """
    trainer.method.teacher.network.head.out.bias.add_(shift)
    return trainer


def batches(trainer: Trainer, steps: int) -> Iterator[Any]:
    """What the next steps consume, from the loader that a training has."""
    hardware = trainer.hardware
    pin = hardware.device.type == "cuda"
    stop = trainer.step + steps
    return iter(trainer.data.loader(trainer.step, stop, workers=hardware.workers, pin=pin))


def train(trainer: Trainer, steps: int) -> list[dict[str, float]]:
    """Take some steps; returns every loss of each of them."""
    return list(losses(trainer, steps))


def losses(
    trainer: Trainer, steps: int, *, without_update: Collection[int] = ()
) -> Iterator[dict[str, float]]:
    """Every loss of each of some steps, as they are taken.

    Args:
        trainer: goes on where it stands.
        steps: how many.
        without_update: steps whose gradient is thrown away, as a gradient scaler does on overflow.
    """
    for micro_batches in batches(trainer, steps):
        trainer.learns = trainer.step not in without_update
        trainer._optimize(micro_batches)
        found = {name: float(value) for name, value in trainer.sums.items()}
        trainer.sums, trainer.counts = {}, {}
        yield found


@torch.no_grad()
def logits(trainer: Trainer) -> Tensor:
    """The student's logits (B, 1, H, W) for the first labeled batch, in the trainer's precision."""
    network = trainer.method.student
    trainer.method.train(False)
    ready = prepare(trainer.method, trainer.data[0][0][0], trainer.hardware)
    with trainer._autocast():
        out = network(network.normalized(ready.image), network.encode_text(ready.text))
    return out.float().cpu()


def fingerprints(trainer: Trainer) -> dict[str, str]:
    """A hash of every tensor that training changes: both networks, projections, optimizer."""
    found = dict(_tensors(trainer.method.state_dict(), "method"))
    found |= dict(_tensors(trainer.optimizer.state_dict()["state"], "optimizer"))
    return {
        name: hashlib.sha256(tensor.detach().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
        for name, tensor in found.items()
    }


def _tensors(node: object, prefix: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(node, Tensor):
        yield prefix, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _tensors(value, f"{prefix}.{key}")
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for place, value in enumerate(node):
            yield from _tensors(value, f"{prefix}.{place}")
