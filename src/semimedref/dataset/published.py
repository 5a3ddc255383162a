"""What a published partition holds, so that any copy of the data can be told to be it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Numbers of images, and hashes of the labeled lists."""

    images: dict[str, int]  # of each split
    side: int | None  # of the published pictures, in pixels
    labeled: Sequence[dict[str, object]]  # ratio, images, sha256 of the list

    def differences(self, found: Mapping[str, int]) -> list[str]:
        """Every number that is another one, as ``train: 12 images, published 5716``."""
        return [
            f"{split}: {found[split]} images, published {number}"
            for split, number in self.images.items()
            if found[split] != number
        ]

    def sha256_at(self, ratio: float) -> str | None:
        """The hash of the published list of a ratio, if there is one."""
        fitting = (e for e in self.labeled if math.isclose(float(str(e["ratio"])), ratio))
        return next((str(entry["sha256"]) for entry in fitting), None)

    def sha256_of_size(self, images: int) -> str | None:
        """The hash of the published list with so many images, if there is one."""
        fitting = (entry for entry in self.labeled if entry["images"] == images)
        return next((str(entry["sha256"]) for entry in fitting), None)
