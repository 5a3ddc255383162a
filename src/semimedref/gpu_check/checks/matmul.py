"""TFLOP/s of one large matrix product: what this GPU can do at best, in each precision."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch

from semimedref.gpu_check.accelerator import lacks
from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.finding import Finding, ok, skipped
from semimedref.gpu_check.tf32 import kept_flags, set_flags

PRECISIONS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


def check(setup: Setup) -> Iterator[Finding]:
    """Each precision that the device has."""
    for name in PRECISIONS:
        missing = lacks(setup.accelerator, name)
        if missing:
            yield skipped(name, missing)
            continue
        with kept_flags():
            set_flags(name == "tf32", name == "tf32")
            finding = _measured(setup, name)
        yield finding


def _measured(setup: Setup, name: str) -> Finding:
    settings, accelerator = setup.settings["matmul"], setup.accelerator
    side = settings["side"]
    a, b = (
        torch.randn(side, side, device=accelerator.device).to(PRECISIONS[name]) for _ in range(2)
    )

    def product() -> None:
        torch.mm(a, b)

    accelerator.seconds(product, settings["warm_up"])
    seconds = statistics.median(accelerator.seconds(product, settings["repeats"]))
    tflops = 2 * side**3 / seconds / 1e12
    return ok(name, f"{tflops:.3g} TFLOP/s", tflops=tflops, seconds=seconds, side=side)
