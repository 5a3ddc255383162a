"""A GPU as far as a plan needs it: how fast it trains and how much it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semimedref.errors import UserError


@dataclass(frozen=True)
class Gpu:
    """One option of conf/gpu, which says what each number is and where it comes from."""

    name: str
    memory_gib: float | None
    peak_tflops: Mapping[str, float | None]
    sustained: Mapping[str, float | None]
    launch_us: float
    reserve_gib: float
    at_once: int

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not isinstance(self.at_once, int) or self.at_once < 1:
            raise UserError(f"gpu.at_once={self.at_once}: expected a whole number from 1 on")

    def rate(self, precision: str) -> float:
        """Operations a second that training reaches in a precision."""
        peak, share = self.peak_tflops.get(precision), self.sustained.get(precision)
        if not peak or not share:
            raise UserError(
                f"gpu: there is no speed of {self.name} in {precision}: expected "
                f"gpu.peak_tflops.{precision}=NUMBER in TFLOP/s (and gpu.sustained.{precision}), "
                "or another gpu, e.g. gpu=rtx3090"
            )
        return float(peak) * float(share) * 1e12

    def seconds(self, flops: float, *, kernels: float, precision: str) -> float:
        """Time of some work: its operations, or the starts of its kernels where those last longer.

        A small network keeps the GPU waiting for Python, so its operations alone say too little.
        """
        return max(flops / self.rate(precision), kernels * self.launch_us * 1e-6)


def precision_of(config: Mapping[str, Any], gpu: Gpu) -> str:
    """The precision that a run's products are computed in: fp32, tf32, bf16 or fp16.

    What ``hardware`` allows in the place of FP32 counts where the GPU can do it.
    """
    named, hardware = str(config["trainer"]["precision"]), config["hardware"]
    if named != "fp32":
        return named
    allowed = {"bf16": hardware.get("bf16") == "auto", "tf32": hardware["tf32"]}
    return next((p for p, on in allowed.items() if on and gpu.peak_tflops.get(p)), named)
