"""Candidate masks that somebody drew before, such as SAM's: a file an image in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.errors import UserError


@dataclass(frozen=True)
class CandidatePlan:
    """What the host hands over with a batch: the plan of its views, and candidate masks."""

    views: Plan
    masks: Tensor | None  # (B, K, H, W) bool; empty ones fill up

    def to(self, device: object) -> CandidatePlan:
        """On a device; copies do not block."""
        masks = None if self.masks is None else self.masks.to(device, non_blocking=True)
        return replace(self, views=self.views.to(device), masks=masks)


class Candidates:
    """``FOLDER/<image id>.npz`` with ``masks`` (K, H, W), of any size; K may differ.

    Args:
        folder: of the files.
        most: masks of an image that are looked at, the largest ones.
    """

    def __init__(self, folder: str, *, most: int) -> None:
        self.folder, self.most = Path(folder).expanduser(), most

    def check(self, ids: Sequence[str]) -> None:
        """Refuse a folder without a file for each image, before anything is trained."""
        if not self.folder.is_dir():
            raise UserError(
                f"method.candidates={self.folder}: there is no such folder; expected one with "
                "<image id>.npz for each training image; or set method.candidates=null"
            )
        missing = [i for i in ids if not self._file(i).is_file()]
        if missing:
            raise UserError(
                f"method.candidates={self.folder}: {len(missing)} of {len(ids)} training images "
                f"have no candidate masks, e.g. {self._file(missing[0]).name}. Expected "
                "<image id>.npz with an array 'masks' (K, H, W); or set method.candidates=null"
            )

    def batch(self, ids: Sequence[str], side: int) -> Tensor:
        """Masks (B, K, side, side), nearest; K is that of the image with most."""
        found = [self._read(i, side) for i in ids]
        most = max(1, *(len(masks) for masks in found))
        return torch.stack([F.pad(m, (0, 0, 0, 0, 0, most - len(m))) for m in found])

    def _read(self, name: str, side: int) -> Tensor:
        file = self._file(name)
        try:
            with np.load(file, allow_pickle=False) as archive:
                masks = np.asarray(archive["masks"]) > 0
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{file} cannot be read ({error}): expected an array 'masks' (K, H, W)"
            ) from error
        if masks.ndim != 3:
            raise UserError(f"{file}: 'masks' is {masks.shape}, expected (K, H, W)")
        largest = np.argsort(-masks.sum((1, 2)), kind="stable")[: self.most]
        chosen = torch.from_numpy(masks[largest])
        if not len(chosen):
            return torch.zeros(0, side, side, dtype=torch.bool)
        return F.interpolate(chosen[None].float(), size=(side, side), mode="nearest")[0] > 0

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.npz"


def best_overlap(pseudo: Tensor, masks: Tensor, *, threshold: float) -> tuple[Tensor, Tensor]:
    """IOM: the candidate with the largest IoU, and whether that is above the threshold.

    Args:
        pseudo: (B, 1, H, W), 0 or 1.
        masks: (B, K, H, W) bool.
        threshold: of the IoU.

    Returns:
        The mask (B, 1, H, W), and (B,) bool.
    """
    m = masks.to(pseudo.dtype)
    both = (m * pseudo).sum((2, 3))
    union = m.sum((2, 3)) + pseudo.sum((2, 3)) - both
    iou = both / union.clamp(min=1)
    best, at = iou.max(1)
    chosen = m.gather(1, at[:, None, None, None].expand(-1, 1, *m.shape[2:]))
    return chosen, best > threshold


def composed(pseudo: Tensor, masks: Tensor, *, threshold: float) -> tuple[Tensor, Tensor]:
    """CPI: all candidates of which the pseudo-mask, or which, lie within the other, together.

    A candidate counts if |m & c| / |c| or |m & c| / |m| is above the threshold.
    """
    m = masks.to(pseudo.dtype)
    both = (m * pseudo).sum((2, 3))
    of_pseudo = both / pseudo.sum((2, 3)).clamp(min=1)
    of_mask = both / m.sum((2, 3)).clamp(min=1)
    takes = torch.maximum(of_pseudo, of_mask) > threshold
    union = (m * takes[:, :, None, None]).amax(1, keepdim=True)
    return union, takes.any(1)
