"""Precision flags: what the hardware option says, what torch says, and what a product shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.config import build, compose
from semimedref.gpu_check.cell import Setup, train
from semimedref.gpu_check.finding import Finding, judged
from semimedref.hardware import Hardware

_CHANNELS = 64  # of the convolution, enough for tensor cores
Flags = Mapping[str, object]
_ENVIRONMENT = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


def check(setup: Setup) -> Iterator[Finding]:
    """Flags before, after ``hardware``, after some training, and with ``hardware.tf32=true``."""
    before = flags()
    trainer = setup.trainer(*setup.settings["size"], *setup.settings["small"])
    claimed = {**before, **wanted(trainer.hardware)}
    yield _compared("hardware.tf32=false", flags(), claimed, before)
    train(trainer, 2)
    yield _compared("after two steps", flags(), claimed, before)
    yield from _effects(setup)
    hardware: Hardware = build(compose(setup.overrides("hardware.tf32=true")), "hardware")
    hardware.apply()
    claimed |= {"matmul_tf32": True, "cudnn_tf32": True}
    yield _compared("hardware.tf32=true", flags(), claimed, before)
    yield from _effects(setup)


def flags() -> dict[str, object]:
    """What torch says at the moment."""
    return {
        "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    }


def wanted(hardware: Hardware) -> dict[str, object]:
    """What the hardware option promises; TF32 stays as it was unless it is switched on."""
    promised: dict[str, object] = {
        "deterministic": hardware.deterministic,
        "cudnn_benchmark": not hardware.deterministic,
    }
    if hardware.deterministic:
        promised["cublas_workspace"] = os.environ.get("CUBLAS_WORKSPACE_CONFIG") or ":4096:8"
    return promised


def product_error(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> float:
    """Relative error of a product in float32, against the same in float64 on the host."""
    exact = multiply(a.double().cpu(), b.double().cpu())
    found = multiply(a, b).double().cpu()
    return float((found - exact).norm() / exact.norm())


def _effects(setup: Setup) -> Iterator[Finding]:
    """A flag that is off must show in the digits: the environment can override it."""
    side, device = setup.settings["flags"]["side"], setup.accelerator.device
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=generator).to(device) for _ in range(2))
    image = torch.randn(8, _CHANNELS, 32, 32, generator=generator).to(device)
    kernel = torch.randn(_CHANNELS, _CHANNELS, 3, 3, generator=generator).to(device)
    matmul, cudnn = flags()["matmul_tf32"], flags()["cudnn_tf32"]
    yield _effect(setup, "matrix product", bool(matmul), product_error(torch.matmul, a, b))
    error = product_error(lambda x, w: F.conv2d(x, w, padding=1), image, kernel)
    yield _effect(setup, "convolution", bool(cudnn), error)


def _effect(setup: Setup, what: str, tf32: bool, error: float) -> Finding:
    exact = setup.settings["flags"]["exact"]
    set_here = [f"{name}={os.environ[name]}" for name in _ENVIRONMENT if name in os.environ]
    return judged(
        error < exact or (tf32 and setup.accelerator.tf32),
        f"{what}, TF32 flag {'on' if tf32 else 'off'}",
        found=f"relative error {error:.1e}",
        expected=f"below {exact:.0e}: no TF32 here",
        advice=f"something else switches TF32 on: {', '.join(set_here) or 'look at the driver'}",
        values={"tf32": tf32, "relative_error": error},
    )


def _compared(subject: str, found: Flags, claimed: Flags, before: Flags) -> Finding:
    wrong = [f"{k} is {v}, not {claimed[k]}" for k, v in found.items() if v != claimed[k]]
    shown = ", ".join(f"{k} {v}" for k, v in found.items())
    return judged(
        not wrong,
        subject,
        found=", ".join(wrong) or shown,
        expected=", ".join(f"{k} {v}" for k, v in claimed.items()),
        advice="unset CUBLAS_WORKSPACE_CONFIG and TORCH_* variables, then run it again",
        values={"before": dict(before), "now": dict(found)},
    )
