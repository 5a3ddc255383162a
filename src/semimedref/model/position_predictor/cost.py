"""What a network costs: parameters and floating-point operations."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

_PER_NORM, _PER_GELU = 5, 1  # operations for an element


def count_parameters(*modules: nn.Module) -> int:
    """Parameters of all modules together, a shared one once."""
    return sum(p.numel() for p in nn.ModuleList(modules).parameters())


def gflops(module: nn.Module, side: int) -> float:
    """Billions of operations for one gray image of ``side`` pixels; see ``flops``."""
    return flops(module, (1, 1, side, side)) / 1e9


def flops(module: nn.Module, shape: tuple[int, ...]) -> int:
    """Operations of one forward pass for an input of this shape; nothing is computed.

    Convention: a multiplication and an addition are two operations. Convolutions and matrix
    products (those of attention too) count, LayerNorm counts 5 for each element and GELU 1; biases,
    sums, means, softmax and other norms count nothing. With it the position predictors need the
    8.93, 8.94 and 9.31 GFLOPs of the paper, which names only the first rule; convolutions and
    matrix products alone give 8.91 for the trunk.
    """
    counter = FlopCounterMode(
        display=False,
        custom_mapping={
            torch.ops.aten.native_layer_norm: _norm_flops,
            torch.ops.aten.gelu: _gelu_flops,
        },
    )
    tensors = [*module.named_parameters(), *module.named_buffers()]
    empty = {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors}
    with torch.no_grad(), counter:
        functional_call(module, empty, (torch.empty(shape, device="meta"),))
    return counter.get_total_flops()


def _norm_flops(x: torch.Size, *_: Any, **__: Any) -> int:  # noqa: ANN401 - torch's protocol
    return _PER_NORM * math.prod(x)


def _gelu_flops(x: torch.Size, *_: Any, **__: Any) -> int:  # noqa: ANN401 - torch's protocol
    return _PER_GELU * math.prod(x)
