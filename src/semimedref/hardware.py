"""The machine: device, threads, workers, memory layout. Not part of a run's identity."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from semimedref.cores import threads_of
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.model.blocks import Attention

# M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD of <malloc.h>, in bytes.
_MALLOC = {-3: 2**30, -1: 2**31 - 1, -2: 2**26}


@dataclass(frozen=True)
class Hardware:
    """Where a run computes; conf/hardware/*.yaml says what each key is."""

    device: torch.device
    threads: int
    workers: int
    channels_last: bool
    deterministic: bool
    tf32: bool
    bf16: bool
    bf16_from: int
    compile: bool
    eval_batch_size: int
    save_seconds: float

    def apply(self) -> None:
        """Set torch's global switches, and how the process handles memory."""
        torch.set_num_threads(self.threads)
        if self.device.type == "cpu":
            _keep_freed_memory()
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # use_deterministic_algorithms() does the same and imports torch's compiler, for a second.
        torch.set_deterministic_debug_mode("error" if self.deterministic else "default")
        # Nothing reads memory before it is written; filling it took up to 3 % of a pass.
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cudnn.benchmark = not self.deterministic
        if self.tf32:
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True

    def place(self, batch: Batch) -> Batch:
        """Images in the memory layout that the hardware likes."""
        if not self.channels_last:
            return batch
        return replace(batch, image=batch.image.contiguous(memory_format=torch.channels_last))

    def place_network(self, network: torch.nn.Module) -> None:
        """A network as the hardware computes it fastest.

        Weights are in that layout, too, on a GPU; on a CPU it made no difference.
        """
        if self.channels_last and self.device.type == "cuda":
            network.to(memory_format=torch.channels_last)
        if self.device.type == "cpu":
            for part in network.modules():
                if isinstance(part, Attention):
                    part.image_by_image = True
        if self.bf16 and self.device.type == "cpu":
            _keep_depthwise_in_fp32(network)

    def training_precision(self, asked: str, *, side: int) -> str:
        """The precision of training: the one that is asked for, or bf16 in the place of FP32.

        On a CPU small images gain nothing: casting takes what the products save.
        """
        pays = self.bf16 and (self.device.type == "cuda" or side >= self.bf16_from)
        return "bf16" if pays and asked == "fp32" else asked

    def precision_flags(self) -> dict[str, object]:
        """What decides the last bits of a result on this machine."""
        return {
            "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "deterministic": self.deterministic,
            "threads": torch.get_num_threads(),
        }


def _bf16(choice: str, device: torch.device) -> bool:
    """Whether FP32 training computes in bfloat16: where the device does that in its hardware."""
    if choice not in ("never", "auto"):
        raise UserError(f"hardware.bf16={choice}: expected never or auto")
    if choice == "never":
        return False
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(_cpu_flags())


def _cpu_flags() -> set[str]:
    """What the processor can do, in the words of Linux; nothing elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _keep_depthwise_in_fp32(network: torch.nn.Module) -> None:
    """Take convolutions of single channels out of autocast where a CPU is slow at them.

    The gradient of a large or strided kernel takes two to six times as long in bfloat16.
    """
    for part in network.modules():
        depthwise = isinstance(part, torch.nn.Conv2d) and part.groups == part.in_channels > 1
        if depthwise and (max(part.kernel_size) > 3 or max(part.stride) > 1):
            part.forward = partial(_in_fp32, part)


def _in_fp32(part: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        return type(part).forward(part, x.float())


def _keep_freed_memory() -> None:
    """Let the C library keep large blocks that are freed instead of giving them back.

    Every activation of a step is such a block. To get it anew from the system, page by page and
    filled with zeros, took a seventh of a step on a CPU. No number changes.
    """
    with suppress(OSError, AttributeError):  # another C library than glibc decides for itself
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for parameter, size in _MALLOC.items():
            mallopt(parameter, size)


def build_hardware(
    *,
    device: str,
    threads: int | None,
    most_threads: int | None,
    workers: int,
    channels_last: bool,
    deterministic: bool,
    tf32: bool,
    bf16: str,
    bf16_from: int,
    compile: bool,
    eval_batch_size: int,
    save_seconds: float,
) -> Hardware:
    """Resolve what is ``auto``: device, threads, bf16; refuse a device that is not there."""
    found = torch.cuda.is_available()
    if device == "cuda" and not found:
        raise UserError("hardware.device=cuda: no CUDA device is visible; use hardware=cpu or auto")
    if device == "auto":
        device = "cuda" if found else "cpu"
        if not found and os.environ.get("SLURM_JOB_GPUS"):
            raise UserError(
                f"this SLURM job was given GPU {os.environ['SLURM_JOB_GPUS']}, but torch sees none "
                "(`python -c 'import torch; print(torch.version.cuda)'` in a job): install torch "
                "for CUDA, or set hardware=cpu"
            )
    numbers = {
        "threads": threads,
        "most_threads": most_threads,
        "eval_batch_size": eval_batch_size,
    }
    for key, value in numbers.items():
        if value is not None and value < 1:
            raise UserError(f"hardware.{key}={value}: expected a whole number from 1 on")
    return Hardware(
        device=torch.device(device),
        threads=threads_of(threads, most=None if device == "cuda" else most_threads),
        workers=workers,
        channels_last=channels_last,
        deterministic=deterministic,
        tf32=tf32,
        bf16=_bf16(bf16, torch.device(device)),
        bf16_from=bf16_from,
        compile=compile,
        eval_batch_size=eval_batch_size,
        save_seconds=save_seconds,
    )
