"""Count what a piece of code would do on a device: operations, kernels and live memory.

Works on fake tensors, so a step at the paper's size costs seconds and no memory.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

_OPS = torch.ops.aten


class Meter(TorchDispatchMode):
    """Adds up while it is entered.

    Attributes:
        flops: a multiplication and an addition are two; convolutions, matrix products and attention
            count, element-wise work does not.
        kernels: operations that write memory; views are free.
        live: bytes of tensors that were made here and are still needed.
        peak: the most that was live at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.kernels = self.live = self.peak = 0
        self._known: dict[int, object] = {}  # storages that are alive, by their address

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's protocol
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run an operation and note what it costs."""
        del types
        out = func(*args, **(kwargs or {}))
        formula = _FORMULAS.get(func._overloadpacket) or flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=out)
        made = [self._note(t) for t in tree_iter(out) if isinstance(t, Tensor)]
        self.kernels += any(made) or func._schema.is_mutable
        self.peak = max(self.peak, self.live)
        return out

    def _note(self, tensor: Tensor) -> bool:
        """Whether the tensor has memory of its own that was not there before."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._known:
            return False
        size = storage.nbytes()
        self._known[address] = weakref.finalize(storage, self._forget, address, size)
        self.live += size
        return True

    def _forget(self, address: int, size: int) -> None:
        self._known.pop(address, None)
        self.live -= size


class FusedAttention(TorchFunctionMode):
    """Attention as a GPU computes it, without the matrix of all pairs.

    With dropout, the CPU's kernels would make that matrix; dropout changes no count.
    """

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's protocol
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Leave the dropout of attention out, and everything else as it is."""
        del types
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def _convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: object,
    stride: object,
    padding: object,
    dilation: object,
    transposed: bool,
    output_padding: object,
    groups: int,
    mask: Sequence[bool],
    *,
    out_val: object,
) -> int:
    """As much as the forward pass for each gradient that is asked for.

    PyTorch's own formula forgets the groups in the gradient of the weight: a depthwise convolution
    of 384 channels would count 384 times as much.
    """
    del bias, stride, padding, dilation, output_padding, groups, out_val
    places = (x if transposed else gradient).shape[2:]
    forward = 2 * len(x) * math.prod(places) * weight.numel()
    return forward * (int(mask[0]) + int(mask[1]))


def _attention(q: Tensor, k: Tensor, v: Tensor, *args: object, **kwargs: object) -> int:
    del args, kwargs
    return int(sdpa_flop_count(q.shape, k.shape, v.shape))


def _attention_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *args: object, **kwargs: object
) -> int:
    del args, kwargs
    return int(sdpa_backward_flop_count(gradient.shape, q.shape, k.shape, v.shape))


_FORMULAS: Mapping[Any, Any] = {
    _OPS.convolution_backward: _convolution_backward,
    _OPS._scaled_dot_product_flash_attention_for_cpu: _attention,
    _OPS._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
