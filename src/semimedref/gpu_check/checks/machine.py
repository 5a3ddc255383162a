"""Which GPU, which driver, which torch; and can this torch compute on it at all?"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import torch

from semimedref.environment import environment
from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.finding import Finding, judged, ok

GIGABYTE = 1024**3


def check(setup: Setup) -> Iterator[Finding]:
    """Describe the machine, and multiply two matrices on it."""
    if setup.accelerator.device.type == "cuda":
        facts = gpu_facts()
        yield ok("", _sentence(facts), **facts)
        yield _kernels(facts)
    else:
        facts = environment()
        yield ok("", f"{facts['processor']}, torch {facts['torch']}", **facts)
    ones = torch.ones(64, 64, device=setup.accelerator.device)
    found = float((ones @ ones).sum())
    yield judged(
        found == 64.0**3,
        "first product",
        found=f"the sum of a 64 x 64 product of ones is {found:.0f}",
        expected=f"{64**3}",
        advice="another program (a CUDA sample, say) will tell whether the GPU is sound",
        values={},
    )


def gpu_facts() -> dict[str, object]:
    """What decides numbers and speed on this GPU."""
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, _ = torch.cuda.mem_get_info()
    return environment() | {
        "gpu": device.name,
        "gpus": torch.cuda.device_count(),
        "capability": f"{device.major}.{device.minor}",
        "multiprocessors": device.multi_processor_count,
        "memory_bytes": device.total_memory,
        "memory_free_bytes": free,
        "driver": driver(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
        "bf16": torch.cuda.is_bf16_supported(including_emulation=False),
        "kernels": torch.cuda.get_arch_list(),
    }


def driver() -> str | None:
    """The version of NVIDIA's driver; None where its tool is missing."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[0] if lines else None


def _sentence(facts: dict[str, object]) -> str:
    total, free = (int(facts[k]) / GIGABYTE for k in ("memory_bytes", "memory_free_bytes"))
    return (
        f"{facts['gpu']}, {total:.1f} GB ({free:.1f} free), capability {facts['capability']}, "
        f"driver {facts['driver'] or 'unknown'}, CUDA {facts['cuda']}, cuDNN {facts['cudnn']}, "
        f"torch {facts['torch']}"
    )


def _kernels(facts: dict[str, object]) -> Finding:
    """Binary kernels run on the same major version; PTX (compute_) on any later one."""
    major, minor = (int(part) for part in str(facts["capability"]).split("."))
    names = [str(name) for name in facts["kernels"]]
    fits = facts["hip"] is not None or any(_runs(name, major, minor) for name in names)
    return judged(
        fits,
        "kernels",
        found=f"torch has kernels for {', '.join(names)}",
        expected=f"some that run on capability {facts['capability']}",
        advice="install the torch build for this GPU (pytorch.org/get-started)",
        values={},
    )


def _runs(name: str, major: int, minor: int) -> bool:
    kind, _, digits = name.partition("_")
    digits = digits.rstrip("af")  # sm_90a: architecture-specific instructions
    if not digits.isdigit():
        return False
    built = int(digits[:-1]), int(digits[-1])
    if kind == "compute":
        return built <= (major, minor)
    return built[0] == major and built[1] <= minor
