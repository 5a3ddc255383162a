"""Contrasts within a batch: whose sentence is it, whose patch, whose word?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_NEVER = -1e4  # score of what does not exist
_LOWEST, _HIGHEST = 0.01, 0.5  # of a learned temperature


class LearnedTemperature(nn.Module):
    """Tau, which learns within bounds: at zero every score would be infinite."""

    def __init__(self, first: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(first))

    def forward(self) -> Tensor:
        """Tau; the gradient passes where it is held, so that it can come back."""
        held = self.value.detach().clamp(_LOWEST, _HIGHEST)
        return self.value + (held - self.value.detach())


def own(scores: Tensor) -> Tensor:
    """Cross-entropy of rows (B, B) whose own column is the right one."""
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def symmetric(scores: Tensor) -> Tensor:
    """The mean of both directions of `own`."""
    return (own(scores) + own(scores.mT)) / 2


def local_contrast(
    whole: Tensor, parts: Tensor, valid: Tensor, *, temperature: Tensor | float
) -> Tensor:
    """Which sample's parts belong to a whole: InfoNCE at every place of a part.

    -mean over samples i and places k that exist of log softmax_j (whole_i parts_jk / tau) at j = i.

    Args:
        whole: (B, D), of length one.
        parts: (B, N, D), of length one.
        valid: (B, N) bool; what does not exist is nobody's.
        temperature: tau.
    """
    scores = torch.einsum("id,jkd->kij", whole, parts) / temperature  # (N, B, B)
    there = valid.mT  # (N, B)
    scores = scores.masked_fill(~there[:, None], _NEVER)
    each = -scores.log_softmax(-1).diagonal(dim1=1, dim2=2)  # (N, B)
    return (each * there).sum() / there.sum().clamp(min=1)


def parts_contrast(
    whole: Tensor, parts: Tensor, valid: Tensor, *, temperature: Tensor | float
) -> Tensor:
    """Each part of a whole against it and against all parts of the other samples.

    -mean over samples i and parts k that exist of
    log (e^s_iik / (e^s_iik + sum over j != i and l of e^s_ijl)), s_ijl = whole_i parts_jl / tau.

    Args:
        whole: (B, D), of length one.
        parts: (B, N, D), of length one, or means of such.
        valid: (B, N) bool; what does not exist is nobody's.
        temperature: tau.
    """
    scores = torch.einsum("id,jkd->ijk", whole, parts) / temperature  # (B, B, N)
    scores = scores.masked_fill(~valid[None], _NEVER)
    mine = torch.eye(len(whole), dtype=torch.bool, device=whole.device)
    others = scores.masked_fill(mine[..., None], _NEVER).flatten(1).logsumexp(1)  # (B,)
    right = scores.diagonal(dim1=0, dim2=1).mT  # (B, N)
    each = torch.logaddexp(right, others[:, None]) - right
    return (each * valid).sum() / valid.sum().clamp(min=1)


def identity_contrast(scores: Tensor, valid: Tensor) -> Tensor:
    """Part i belongs to its own copy i, in both directions, among the parts of one sample.

    Args:
        scores: (B, N, N).
        valid: (B, N) bool.
    """
    columns = scores.masked_fill(~valid[:, None], _NEVER)
    rows = scores.masked_fill(~valid[:, :, None], _NEVER)
    there = columns.log_softmax(2) + rows.log_softmax(1)
    each = -there.diagonal(dim1=1, dim2=2) / 2  # (B, N)
    return (each * valid).sum() / valid.sum().clamp(min=1)


def pooled_scores(features: Tensor, masks: Tensor, sentences: Tensor) -> Tensor:
    """How well what each sentence's mask shows of each image fits that sentence (B, T).

    Args:
        features: (B, D, h, w).
        masks: (B, T, h, w), of every sentence in every image.
        sentences: (T, D), of length one.
    """
    shown = torch.einsum("bthw,bdhw->btd", masks, features)
    return (F.normalize(shown, dim=-1) * sentences[None]).sum(-1)
