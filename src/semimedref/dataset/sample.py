"""What a data set hands out: splits of images, sentences and masks; and a batch of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from semimedref.dataset.splits import labeled_subset

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Split:
    """One split of a data set. Images and masks may be memory maps: they are read when indexed."""

    ids: tuple[str, ...]
    patients: tuple[str, ...]
    texts: tuple[str, ...]
    positions: np.ndarray  # (N, K) uint8, multi-hot
    images: np.ndarray  # (N, H, W) uint8
    masks: np.ndarray  # (N, H, W) uint8, 0 or 1
    domains: tuple[str, ...] = ()  # of each image; none or empty names: the data are of one kind

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def masked(self) -> list[int]:
        """Places of the images that have a mask at all; of those in files some may not."""
        return list(getattr(self.masks, "existing", range(len(self))))

    def read_masks(self, places: Sequence[int]) -> None:
        """Decode masks that lie in files all at once, before they are looked at one by one."""
        require = getattr(self.masks, "require", None)
        if require is not None:
            require(places)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """What names each image in a table."""
        names = {"id": self.ids, "patient": self.patients}
        return names | ({"domain": self.domains} if any(self.domains) else {})

    def place_column(self, regions: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The regions that each sentence names, for a table: ``upper left; lower left``."""
        if not regions:
            return {}
        rows = self.positions.astype(bool).tolist()
        return {"position": tuple("; ".join(compress(regions, row)) for row in rows)}


class ImageTextDataset(ABC):
    """The contract of a data set: a name, its splits, and which images carry a mask.

    Attributes:
        regions: what a position label marks, in its order.
        rounding: of the number of labeled images, round or floor.
        synthetic: pictures may be shown and shared; those of patients only when asked.
    """

    name: str
    regions: tuple[str, ...]
    rounding: str
    synthetic: bool

    @abstractmethod
    def split(self, name: str) -> Split:
        """The split ``train``, ``valid`` or ``test``."""

    def labeled_places(self, *, fraction: float, split_seed: int) -> tuple[list[int], list[int]]:
        """Places of the labeled and of the unlabeled images in the training split."""
        return labeled_subset(
            self.split("train").ids,
            fraction=fraction,
            split_seed=split_seed,
            rounding=self.rounding,
        )

    def prepare(self, labeled: Sequence[int]) -> None:
        """Read whatever a run will need, so that a damaged file stops it before it trains."""
        del labeled

    def text_blind_oracle(self, name: str) -> float | None:
        """Dice of segmenting every visible lesion without reading, where that is known."""
        del name
        return None

    def warnings(self) -> tuple[str, ...]:
        """What every report on this data set should repeat."""
        return ()

    def facts(self) -> dict[str, object]:
        """What a result should say about the data that it was made with."""
        return {}


@dataclass(frozen=True)
class Batch:
    """Tensors of a batch, its sentences, and the random numbers its augmentation may use."""

    image: Tensor  # (B, 1, H, W) uint8 on the host, float in [0, 1] on the device
    mask: Tensor | None  # (B, 1, H, W) likewise; None for unlabeled samples
    position: Tensor  # (B, K) float
    uniform: Tensor  # (B, U) float in [0, 1)
    index: Tensor  # (B,) int64, place in the split
    sentences: tuple[str, ...]
    text: Any = None  # what the network's text encoder prepared for the sentences
    plan: Any = None  # what the host decided about the strong view

    def __len__(self) -> int:
        return len(self.sentences)

    def pin_memory(self) -> Batch:
        """Page-locked copies, so that the transfer to a GPU does not block."""
        mask = None if self.mask is None else self.mask.pin_memory()
        pinned = {k: getattr(self, k).pin_memory() for k in ("image", "position", "uniform")}
        return replace(self, mask=mask, index=self.index.pin_memory(), **pinned)

    def to(self, device: object) -> Batch:
        """The batch on a device, images and masks as float; copies do not block."""
        import torch

        def move(t: Tensor) -> Tensor:
            return t.to(device, non_blocking=True)

        mask = None if self.mask is None else move(self.mask).to(torch.float32)
        return replace(
            self,
            image=move(self.image).to(torch.float32) / 255.0,
            mask=mask,
            position=move(self.position),
            uniform=move(self.uniform),
            index=move(self.index),
        )
