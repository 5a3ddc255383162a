"""Copies from the host to a device inside a step: how large, and from page-locked memory or not.

``set_sync_debug_mode`` does not see a copy from pageable memory that was asked not to block; the
driver stages it and, above some size, makes the host wait all the same.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import semimedref

_OURS = Path(semimedref.__file__).parent
_COPYING = ("_to_copy", "copy_", "_copy_from")


@dataclass(frozen=True)
class Copy:
    """One place of the code that copies, with the largest of its copies."""

    place: str
    bytes: int
    pinned: bool


class Copies(TorchDispatchMode):
    """Notes every copy from the host to a device of some type while it is active."""

    def __init__(self, device_type: str) -> None:
        super().__init__()
        self.device_type, self._seen = device_type, dict[tuple[str, bool], Copy]()

    @property
    def seen(self) -> list[Copy]:
        """Largest first."""
        return sorted(self._seen.values(), key=lambda copy: -copy.bytes)

    def above(self, limit: int) -> list[Copy]:
        """Copies from pageable memory of more bytes than that."""
        return [copy for copy in self.seen if not copy.pinned and copy.bytes > limit]

    def summary(self) -> str:
        """In a few words."""
        pageable = [copy for copy in self.seen if not copy.pinned]
        largest = f", at most {pageable[0].bytes:,} bytes" if pageable else ""
        return (
            f"{len(self.seen) - len(pageable)} page-locked copies, {len(pageable)} others{largest}"
        )

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the operator returns
        out = func(*args, **(kwargs or {}))
        if func._opname in _COPYING:
            given = [arg for arg in args if isinstance(arg, torch.Tensor)]
            if given and given[-1].device.type == "cpu" and out.device.type == self.device_type:
                self._note(given[-1])
        return out

    def _note(self, tensor: torch.Tensor) -> None:
        if self.device_type == "cpu":
            return
        size, pinned = tensor.numel() * tensor.element_size(), tensor.is_pinned()
        place = _place()
        known = self._seen.get((place, pinned))
        if known is None or known.bytes < size:
            self._seen[place, pinned] = Copy(place, size, pinned)


def _place() -> str:
    """The innermost line of our code that is not the check's."""
    for frame in reversed(traceback.extract_stack()):
        file = Path(frame.filename)
        if file.is_relative_to(_OURS) and "gpu_check" not in file.parts:
            return f"{file.relative_to(_OURS.parent).as_posix()}:{frame.lineno}"
    return "outside of semimedref"
