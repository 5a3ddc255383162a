"""What is analysed: a finished run with its weights, and the images of a split."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from semimedref import checkpoint
from semimedref.errors import UserError
from semimedref.evaluate import prepare
from semimedref.run import Parts, finished_config

if TYPE_CHECKING:
    from torch import Tensor

    from semimedref.dataset.loaders import Pool
    from semimedref.dataset.sample import Batch
    from semimedref.model.segmenter import Segmenter


@dataclass(frozen=True)
class Subject:
    """A run in evaluation mode, and the pool of images on which it is questioned."""

    folder: Path
    parts: Parts
    pool: Pool
    split: str
    weights: str  # student or teacher
    saved: frozenset[str]  # what the checkpoint holds, by name

    @classmethod
    def open(
        cls, folder: Path, *, split: str, weights: str, overrides: Sequence[str] = ()
    ) -> Subject:
        """Build the run again and load its best weights."""
        parts = Parts.build(finished_config(folder, overrides))
        if not parts.method.segments:
            raise UserError(f"{folder} predicts no masks: expected a run of a segmentation method")
        if not parts.cfg.dataset.vocabulary:
            raise UserError(
                f"{folder} has no positional words to ask about: expected a run on a data set with "
                "a position vocabulary (dataset.vocabulary)"
            )
        state = checkpoint.pick(checkpoint.load(folder / "best.pt"), "weights")
        parts.method.load_weights(state)
        parts.method.train(False)
        parts.method.network(weights)
        return cls(folder, parts, parts.pool(split), split, weights, frozenset(state))

    @property
    def name(self) -> str:
        """The label of the run's table row, or its signature."""
        return self.parts.cfg.row or self.folder.name.rsplit("-", 1)[-1]

    @property
    def vocabulary(self) -> str:
        """Name of the vocabulary of the data set's sentences."""
        return self.parts.cfg.dataset.vocabulary

    @property
    def network(self) -> Segmenter:
        """Student or teacher."""
        return self.parts.method.network(self.weights)

    @property
    def patients(self) -> tuple[str, ...]:
        """The patient of every image."""
        return self.pool.split.patients

    def batches(self, label: str) -> Iterator[tuple[slice, Batch]]:
        """The pool in order, each batch on the host with its place in the pool."""
        size, start = self.parts.hardware.eval_batch_size, 0
        total = -(-len(self.pool) // size)
        for batch in progress(self.pool.batches(size), total=total, label=label):
            yield slice(start, start + len(batch)), batch
            start += len(batch)

    def ready(self, batch: Batch, sentences: Sequence[str] | None = None) -> Batch:
        """The batch on the device, with its own or with other sentences."""
        if sentences is not None:
            batch = replace(batch, sentences=tuple(sentences))
        return prepare(self.parts.method, batch, self.parts.hardware)

    @torch.no_grad()
    def predict(self, batch: Batch, sentences: Sequence[str] | None = None) -> Tensor:
        """Predicted masks (B, 1, H, W), bool, for the batch's own or for other sentences."""
        ready = self.ready(batch, sentences)
        probability = self.parts.method.predict(ready, weights=self.weights)
        return probability >= self.parts.threshold


def progress(items: Iterator, *, total: int, label: str) -> Iterator:
    """The items, with a bar on a terminal."""
    from tqdm import tqdm

    return tqdm(items, total=total, desc=label, leave=False, disable=not sys.stderr.isatty())
