"""How large a checkpoint will be, from tensors that have no data."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter, tree_map

from semimedref import checkpoint

_PADDING = 64  # bytes


def checkpoint_bytes(state: dict[str, Any], *, resumable: bool = False) -> int:
    """Bytes of a state on the disk: those of its tensors, and of the file around them.

    The file around them is really written, with hollow tensors in place of the others. torch pads
    what it saves to multiples of 64 bytes: a hollow tensor lacks such a multiple.
    """
    tensors = {t.untyped_storage()._cdata: t for t in tree_iter(state) if isinstance(t, Tensor)}
    lacking = sum((t.numel() - _kept(t)) * t.element_size() for t in tensors.values())
    hollow = tree_map(lambda t: _hollow(t) if isinstance(t, Tensor) else t, state)
    if resumable:
        hollow = hollow | {"random": checkpoint.random_state()}
    buffer = io.BytesIO()
    torch.save(hollow, buffer)
    return lacking + len(buffer.getvalue())


def optimizer_state(groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """AdamW's state after its first step; to be called where tensors are fake."""
    if not any(group["params"] for group in groups):
        return {}
    optimizer = torch.optim.AdamW([dict(group) for group in groups], foreach=True)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            optimizer.state[parameter] = {
                "step": torch.zeros(()),
                "exp_avg": torch.empty_like(parameter),
                "exp_avg_sq": torch.empty_like(parameter),
            }
    return optimizer.state_dict()


def _hollow(tensor: Tensor) -> Tensor:
    shape = [_kept(tensor), *[1] * (tensor.dim() - 1)] if tensor.dim() else []
    return torch.zeros(shape, dtype=tensor.dtype)


def _kept(tensor: Tensor) -> int:
    """How many numbers a hollow tensor has."""
    block = _PADDING // tensor.element_size()
    return tensor.numel() if tensor.numel() < block else block + tensor.numel() % block
