"""What a result was made with: code, packages, machine."""

from __future__ import annotations

import contextlib
import platform
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

COMMIT_FILE = "COMMIT"  # in the package: what a copy of the code was copied from
_PACKAGES = ("torch", "numpy", "timm", "transformers", "hydra-core", "omegaconf")


def environment() -> dict[str, str]:
    """Python, platform, device and the packages that decide numbers."""
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else _processor()
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": device,
        **{name: version(name) for name in _PACKAGES},
    }


def git_commit() -> str | None:
    """The commit of the checkout, with ``-dirty`` if it has changes; None outside a checkout."""
    here = Path(__file__).parent
    with contextlib.suppress(OSError):  # a copy may lie inside another checkout
        return (here / COMMIT_FILE).read_text().strip() or None
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def reset_peak_memory() -> None:
    """Start a new peak: the cells of one process must not inherit each other's."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes() -> int:
    """Highest memory since the reset: of the GPU if there is one, else of this process."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
