"""Batches as a pure function of the step: resuming is starting the range later.

The larger pool passes once an epoch, the smaller one cycles, each pass in a fresh order
("maximum-size cycling"); or labeled images are drawn with replacement (release). Where images come
from several domains, each of them passes on its own and gives the same number to every batch.
Orders and augmentation numbers depend on (seed, pass, sample) alone, so neither the number of
workers nor an interruption changes what a step sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from semimedref import seed as seeds
from semimedref.dataset.sample import Batch, Split
from semimedref.errors import UserError


@dataclass(frozen=True)
class Pool:
    """Some images of a split at the side that the network takes."""

    split: Split
    places: tuple[int, ...]  # rows of the split that belong to the pool
    side: int
    masks: bool  # False: masks are never read

    def __post_init__(self) -> None:
        """Decode the masks of these places, and no others."""
        if self.masks:
            self.split.read_masks(self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domain of each image; nothing where the data are of one kind."""
        named = any(self.split.domains)
        return tuple(self.split.domains[i] for i in self.places) if named else ()

    def fetch(self, chosen: Sequence[int], uniform: np.ndarray | None = None) -> Batch:
        """The pool's images number ``chosen`` as one batch on the host."""
        at = [self.places[i] for i in chosen]
        image = torch.from_numpy(np.stack([self.split.images[i] for i in at]))[:, None]
        mask = None
        if self.masks:
            mask = torch.from_numpy(np.stack([self.split.masks[i] for i in at]))[:, None]
        if uniform is None:
            uniform = np.zeros((len(at), 0), np.float32)
        return Batch(
            image=_resize(image, self.side, "bicubic"),
            mask=None if mask is None else _resize(mask, self.side, "nearest"),
            position=torch.from_numpy(self.split.positions[at].astype(np.float32)),
            uniform=torch.from_numpy(uniform),
            index=torch.tensor(at),
            sentences=tuple(self.split.texts[i] for i in at),
        )

    def batches(self, size: int) -> Iterator[Batch]:
        """The whole pool in order, for evaluation."""
        for start in range(0, len(self), size):
            yield self.fetch(range(start, min(start + size, len(self))))


@dataclass(frozen=True)
class Lane:
    """Images of a pool that pass together, in an order of their own."""

    members: Sequence[int]  # numbers in the pool
    place: tuple[int, ...]  # what tells its random numbers from those of other lanes


@dataclass(frozen=True)
class Stream:
    """An endless, repeatable sequence of batches from one pool."""

    pool: Pool
    name: str  # the random stream, "labeled" or "unlabeled"
    seed: int
    batch_size: int
    draws: int
    sampler: str  # cycle: each image once a pass; replacement: as many draws, each from all images

    def __post_init__(self) -> None:
        """Refuse a batch that the domains cannot share."""
        lanes, size = len(self.lanes), self.batch_size
        if size % lanes:
            raise UserError(
                f"trainer.batch_size={size} cannot be shared equally by {lanes} domains: expected "
                f"a multiple of {lanes}, e.g. trainer.batch_size={-(-size // lanes) * lanes}"
            )

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """What passes on its own: every domain, or the whole pool."""
        domains = self.pool.domains
        if not domains:
            return (Lane(range(len(self.pool)), ()),)
        # Numbered in the whole split, so that both pools count alike.
        names = dict.fromkeys(self.pool.split.domains)
        members = [[i for i, own in enumerate(domains) if own == name] for name in names]
        return tuple(Lane(own, (number,)) for number, own in enumerate(members) if own)

    def batch(self, step: int) -> Batch:
        """Batch number ``step`` since the beginning of training."""
        order = _order if self.sampler == "cycle" else _replacement
        share = self.batch_size // len(self.lanes)
        chosen, numbers = [], []
        for lane in self.lanes:
            n = len(lane.members)
            for position in range(step * share, (step + 1) * share):
                turn, at = divmod(position, n)
                drawn = order(self.seed, self.name, turn, *lane.place, n=n)[at]
                chosen.append(lane.members[int(drawn)])
                place = (turn, at, *lane.place)
                numbers.append(seeds.uniforms(self.seed, self.name, *place, n=self.draws))
        return self.pool.fetch(chosen, np.stack(numbers))


class TrainingSteps(Dataset):
    """Item number s is all that optimizer step s consumes: one pair of batches a micro-batch."""

    def __init__(self, labeled: Stream, unlabeled: Stream | None, *, accumulate: int) -> None:
        self.labeled, self.unlabeled, self.accumulate = labeled, unlabeled, accumulate

    def __getitem__(self, step: int) -> list[tuple[Batch, Batch | None]]:
        micro = range(step * self.accumulate, (step + 1) * self.accumulate)
        other = self.unlabeled
        return [(self.labeled.batch(m), other.batch(m) if other else None) for m in micro]

    def loader(self, start: int, stop: int, *, workers: int, pin: bool) -> DataLoader:
        """Steps ``start`` to ``stop`` in order, prefetched by ``workers`` processes."""
        return DataLoader(
            self,
            batch_size=None,
            sampler=range(start, stop),
            num_workers=workers,
            pin_memory=pin,
            worker_init_fn=_one_thread,
        )


def steps_per_epoch(labeled: int, unlabeled: int, *, batch_size: int, accumulate: int) -> int:
    """Optimizer steps for one pass of the larger pool."""
    return -(-max(labeled, unlabeled) // (batch_size * accumulate))


@lru_cache(maxsize=32)  # two passes of two streams with up to six domains, and some more
def _order(seed: int, name: str, *place: int, n: int) -> np.ndarray:
    return seeds.permutation(seed, name, *place, n=n)


@lru_cache(maxsize=32)
def _replacement(seed: int, name: str, turn: int, *lane: int, n: int) -> np.ndarray:
    place = n  # samples of a pass have the places 0 to n - 1
    return np.floor(seeds.uniforms(seed, name, turn, place, *lane, n=n).astype(np.float64) * n)


def _resize(x: Tensor, side: int, mode: str) -> Tensor:
    if x.shape[-1] == side and x.shape[-2] == side:
        return x
    if mode == "nearest":
        return F.interpolate(x, size=(side, side), mode="nearest")
    return F.interpolate(x.float(), size=(side, side), mode=mode, align_corners=False)


def _one_thread(worker: int) -> None:
    del worker
    torch.set_num_threads(1)
