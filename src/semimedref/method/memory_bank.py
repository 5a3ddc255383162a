"""A memory of the labeled images, a row each, in which others look for what is like them (RAR)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LOWEST = -1e4  # a similarity of what does not count: its softmax is zero


class MemoryBank(nn.Module):
    """A feature of each labeled image and one of its sentence, which follow it slowly.

    Args:
        row: (M,) int64, of an image in the bank, by its place in the split.
        rows: N, labeled images.
        width: C, of a feature.
        momentum: memory of a row, each time its image comes.
    """

    def __init__(self, row: Tensor, rows: int, *, width: int, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("row", row, persistent=False)
        self.register_buffer("image", torch.zeros(rows, width))
        self.register_buffer("text", torch.zeros(rows, width))
        self.register_buffer("seen", torch.zeros(rows, dtype=torch.bool))

    @torch.no_grad()
    def remember(self, index: Tensor, image: Tensor, text: Tensor) -> None:
        """Move the rows of images at places ``index`` (B,) towards features (B, C).

        The first time a feature is taken as it is. Of an image that a batch holds twice, the first
        counts, so that the result never depends on an order of writing.
        """
        rows = self.row[index]
        first = (rows[:, None] == rows).int().argmax(1)
        known = self.seen[rows][:, None]
        for bank, found in ((self.image, image), (self.text, text)):
            new = found.detach().to(bank.dtype)[first]
            bank[rows] = torch.where(known, torch.lerp(new, bank[rows], self.momentum), new)
        self.seen[rows] = True

    def contrasts(
        self, image: Tensor, text: Tensor, *, nearest: int, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """L_cross and L_img of features (B, C): positives by the sentence, and by the image."""
        with torch.autocast(image.device.type, enabled=False):  # cosines are close to one another
            found = [
                retrieved(query, keys, self.image, self.seen, nearest)
                for query, keys in ((text, self.text), (image, self.image))
            ]
            cross, own = (
                contrast(image, positive, self.image, self.seen, temperature) for positive in found
            )
        return cross, own

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state_dict`` gave, of a bank of any size."""
        for name in ("image", "text", "seen"):
            setattr(self, name, state[name].to(self.seen.device, copy=True))


def retrieved(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor, nearest: int) -> Tensor:
    """Mean (B, C) of the values whose keys are most like the query, weighed by how much.

    Args:
        query: (B, C), of any length, as all.
        keys: (N, C), compared by cosine.
        values: (N, C), a row for each key.
        seen: (N,) bool, which rows count.
        nearest: how many are taken; the weights are the softmax of their cosines.
    """
    similar = F.normalize(query, dim=-1) @ F.normalize(keys, dim=-1).T
    most, at = similar.masked_fill(~seen, _LOWEST).topk(min(nearest, len(keys)), dim=1)
    return (most.softmax(1)[..., None] * values[at]).sum(1)


def contrast(
    query: Tensor, positive: Tensor, bank: Tensor, seen: Tensor, temperature: float
) -> Tensor:
    """-log e^(q p / tau) / (e^(q p / tau) + sum e^(q b / tau)), a mean over queries.

    The sum runs over the whole bank: what a positive was made of is among the negatives, too.

    Args:
        query: (B, C), brought to length one, as all.
        positive: (B, C), one for each query.
        bank: (N, C), the negatives of all queries.
        seen: (N,) bool, which of them count.
        temperature: tau.
    """
    q, p, b = (F.normalize(x, dim=-1) for x in (query, positive, bank))
    own = (q * p).sum(-1, keepdim=True) / temperature
    other = (q @ b.T / temperature).masked_fill(~seen, _LOWEST)
    return (torch.cat([own, other], 1).logsumexp(1) - own[:, 0]).mean()
