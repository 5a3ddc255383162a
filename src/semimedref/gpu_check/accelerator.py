"""What a check asks of its device: wait, time, memory, no synchronization; on a GPU or a CPU.

Checks are written against these two classes alone, so that all of them run on a CPU, too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol

import torch

from semimedref.environment import peak_memory_bytes, reset_peak_memory


class Accelerator(Protocol):
    """A device.

    Attributes:
        device: where tensors go.
        watches: whether it notices that the host waits for it.
        tf32: whether it has TF32 at all.
        bf16: whether it computes bfloat16, and does not imitate it.
    """

    device: torch.device
    watches: bool
    tf32: bool
    bf16: bool

    def synchronize(self) -> None:
        """Wait until all work is done."""
        ...

    def seconds(self, call: Callable[[], object], times: int) -> list[float]:
        """How long each of some calls kept the device busy."""
        ...

    def no_sync(self) -> contextmanager:
        """Inside, whatever makes the host wait for the device is an error."""
        ...

    def memory(self) -> dict[str, int]:
        """Bytes since ``forget``: allocated and reserved at most, and what the device has."""
        ...

    def forget(self) -> None:
        """Give back cached memory and start a new peak."""
        ...


class Gpu:
    """A CUDA device."""

    watches = True

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        if self.device.index is not None:  # events, memory and names are of the current device
            torch.cuda.set_device(self.device)
        self.tf32 = torch.cuda.get_device_capability() >= (8, 0)
        self.bf16 = torch.cuda.is_bf16_supported(including_emulation=False)

    def synchronize(self) -> None:
        """Wait for all streams."""
        torch.cuda.synchronize()

    def seconds(self, call: Callable[[], object], times: int) -> list[float]:
        """By events on the stream: the host never waits between the calls."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
        marks[0].record()
        for mark in marks[1:]:
            call()
            mark.record()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in pairwise(marks)]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """PyTorch raises where it knows that it would wait."""
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def memory(self) -> dict[str, int]:
        """Of PyTorch's allocator, and of the device."""
        return {
            "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
            "total": torch.cuda.get_device_properties(self.device).total_memory,
        }

    def forget(self) -> None:
        """After objects that are no longer used are gone."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


class Host:
    """The CPU, in the place of a GPU."""

    watches = False
    tf32 = False
    bf16 = True

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    def seconds(self, call: Callable[[], object], times: int) -> list[float]:
        """By the clock."""
        marks = [time.perf_counter()]
        for _ in range(times):
            call()
            marks.append(time.perf_counter())
        return [after - before for before, after in pairwise(marks)]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A CPU cannot wait for itself."""
        yield

    def memory(self) -> dict[str, int]:
        """Of the process."""
        peak = peak_memory_bytes()
        return {"allocated": peak, "reserved": peak}

    def forget(self) -> None:
        """Start a new peak."""
        gc.collect()
        reset_peak_memory()


def accelerator(device: str) -> Accelerator:
    """The device of that name."""
    return Gpu(device) if torch.device(device).type == "cuda" else Host(device)


def lacks(found: Accelerator, precision: str) -> str | None:
    """Why a device has no such precision, or None."""
    if precision == "tf32" and not found.tf32:
        return "this device has no TF32"
    if precision == "bf16" and not found.bf16:
        return "this device computes no bfloat16; use fp16"
    return None
