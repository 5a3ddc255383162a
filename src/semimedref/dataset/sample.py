"""What a data set hands out: splits of images, sentences and masks; and a batch of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

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

    def __len__(self) -> int:
        return len(self.ids)


class ImageTextDataset(Protocol):
    """The contract of a data set: a name, a fingerprint of its content, and its splits."""

    name: str
    regions: tuple[str, ...]
    rounding: str  # of the number of labeled images: round or floor
    synthetic: bool  # pictures may be shown and shared; radiographs of patients only when asked

    def split(self, name: str) -> Split:
        """The split ``train``, ``valid`` or ``test``."""
        ...

    def text_blind_oracle(self, name: str) -> float | None:
        """Dice of segmenting every visible lesion without reading, where that is known."""
        ...


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
