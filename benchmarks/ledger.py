"""Book the time, the operations and the memory traffic of a training step to its parts.

A part is entered by calling a function that belongs to it; inside, nothing else is booked to the
part around it. The backward pass is booked to the part whose forward pass made the autograd node.
"""

from __future__ import annotations

import bisect
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from semimedref.trainer import Trainer

REST = "everything else"
_ORDER = (
    "data", "augmentation", "text encoder", "teacher",
    "trunk, forward", "trunk, backward", "fusion and decoder, forward",
    "fusion and decoder, backward", "trunk for PACL, forward", "trunk for PACL, backward",
    "PACL, forward", "PACL, backward", "loss, forward", "loss, backward",
    "optimizer", "EMA", REST,
)  # fmt: skip
_NETWORKS = ("text encoder", "teacher", "trunk", "fusion", "PACL", "optimizer")


class Ledger:
    """Seconds by part, each moment booked once."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self.part = REST
        self._since = clock()
        self._firsts: list[int] = []  # autograd sequence numbers at which another part begins
        self._parts: list[str] = []

    def enter(self, part: str) -> None:
        """From now on time belongs to this part."""
        now = self.clock()
        self.seconds[self.part] += now - self._since
        self.part, self._since = part, now

    def calls(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls belong to a part."""

        def run(*args: Any, **named: Any) -> Any:
            outer = self.part
            if outer == "teacher" or (outer.startswith("trunk for") and part.startswith("trunk")):
                return call(*args, **named)  # is one part as a whole
            self._begin(part)
            try:
                return call(*args, **named)
            finally:
                self._begin(outer)

        return run

    def backward(self, call: Callable[..., None]) -> Callable[..., None]:
        """``Tensor.backward``, each node of which belongs to the part that made it."""

        def run(loss: Tensor, *args: Any, **named: Any) -> None:
            outer, start = self.part, self.clock()
            hooks = [node.register_prehook(self._hook(node)) for node in _nodes(loss.grad_fn)]
            self._since += self.clock() - start  # finding the nodes is no part of the step
            call(loss, *args, **named)
            self.enter(outer)
            for hook in hooks:
                hook.remove()
            self._firsts, self._parts = [], []
            self._since = self.clock()

        return run

    def _begin(self, part: str) -> None:
        self.enter(part)
        self._firsts.append(_sequence_number())
        self._parts.append(part)

    def _hook(self, node: Node) -> Callable[[Any], None]:
        at = bisect.bisect_right(self._firsts, node._sequence_nr()) - 1
        part = self._parts[at] if at >= 0 else REST
        part = part.replace(", forward", ", backward")

        def enter(gradients: Any) -> None:
            del gradients
            self.enter(part)

        return enter


class Traffic(TorchDispatchMode):
    """Operations and bytes by part; an operation reads its inputs and writes its outputs once."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.flop: dict[str, float] = defaultdict(float)
        self.calls: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Run an operation and book it."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if not func.is_view:
            flop = _operations(func, args, kwargs, out)
            tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
            part = self.ledger.part
            self.flop[part] += flop
            self.calls[part].append((flop, sum(t.numel() * t.itemsize for t in tensors)))
        return out

    def least_seconds(self, part: str, *, flop_rate: float, byte_rate: float) -> float:
        """What a part takes where every operation runs at the machine's limit (its roofline)."""
        return sum(max(flop / flop_rate, size / byte_rate) for flop, size in self.calls[part])


@contextmanager
def booked(trainer: Trainer, ledger: Ledger) -> Iterator[None]:
    """Steps of this trainer are booked to their parts."""
    method, views = trainer.method, trainer.method.views
    student = method.student
    teacher = getattr(method, "teacher", None)
    align = getattr(method, "align", None)
    calls: list[tuple[object, str, str]] = [
        (type(trainer.data), "__getitem__", "data"),
        (method, "plan", "augmentation"),
        (method, "prepare_text", "text encoder"),
        (student, "prepare_text", "text encoder"),
        (student, "encode_text", "text encoder"),
        (student, "forward", "fusion and decoder, forward"),
        (student, "image_features", "trunk for PACL, forward"),
        (method, "objective", "loss, forward"),
        (trainer.optimizer, "zero_grad", "optimizer"),
        (trainer, "_descend", "optimizer"),
        (method, "after_step", "EMA"),
    ]
    calls += [(views, n, "augmentation") for n in ("weak", "labeled", "strong", "normalized")]
    levels = student.image_encoder.levels if hasattr(student, "image_encoder") else []
    calls += [(level, "forward", "trunk, forward") for level in levels]
    if teacher is not None:
        calls.append((method, "teach", "teacher"))
    if align is not None:
        calls.append((align, "forward", "PACL, forward"))
    with ExitStack() as patches:
        for owner, name, part in calls:
            wrapped = ledger.calls(part, getattr(owner, name))
            patches.enter_context(mock.patch.object(owner, name, wrapped))
        backward = ledger.backward(torch.Tensor.backward)
        patches.enter_context(mock.patch.object(torch.Tensor, "backward", backward))
        yield


def in_order(parts: dict[str, float]) -> list[str]:
    """The parts that a step has, in the order of the step."""
    return [part for part in _ORDER if part in parts] + sorted(set(parts) - set(_ORDER))


def rest_share(trainer: Trainer, step: Callable[[], object], steps: int) -> float:
    """Share of some steps that is not networks, their backward pass and the optimizer."""
    ledger = Ledger()
    with booked(trainer, ledger):
        for _ in range(steps):
            step()
    ledger.enter(REST)
    networks = sum(s for part, s in ledger.seconds.items() if part.startswith(_NETWORKS))
    networks += ledger.seconds["loss, backward"]
    return 1 - networks / sum(ledger.seconds.values())


def _operations(func: Any, args: Any, kwargs: Any, out: Any) -> float:
    """Multiplications and additions of convolutions and matrix products."""
    if func.overloadpacket is torch.ops.aten.convolution_backward:
        # torch counts the gradient of grouped weights as if there were no groups.
        gradient, image, weight, transposed, mask = args[0], args[1], args[2], args[7], args[-1]
        places = (image if transposed else gradient)[:, 0].numel()
        return float(2 * places * weight.numel() * sum(mask[:2]))
    count = flop_registry.get(func.overloadpacket)
    return float(count(*args, **kwargs, out_val=out)) if count else 0.0


def _nodes(root: Node | None) -> list[Node]:
    """All nodes of the graph below a loss."""
    found: dict[Node, None] = {}
    waiting = [root] if root is not None else []
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [one for one, _ in node.next_functions if one is not None]
    return [node for node in found if node.name() != "torch::autograd::AccumulateGrad"]


def _sequence_number() -> int:
    """That of the next autograd node."""
    with torch.enable_grad():
        return torch.empty((), requires_grad=True).view(()).grad_fn._sequence_nr() + 1
