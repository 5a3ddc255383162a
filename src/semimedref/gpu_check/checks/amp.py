"""bf16 and fp16 against FP32: logits before any update, then the losses of the first steps."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from semimedref.gpu_check.accelerator import lacks
from semimedref.gpu_check.cell import Setup, logits, losses, sure_teacher
from semimedref.gpu_check.curve import Curve, Deviation, deviation
from semimedref.gpu_check.finding import Finding, judged, skipped
from semimedref.trainer import Trainer


def check(setup: Setup) -> Iterator[Finding]:
    """Each precision beside an FP32 training with the same weights, data and draws."""
    for precision in setup.settings["amp"]["precisions"]:
        missing = lacks(setup.accelerator, precision)
        yield skipped(precision, missing) if missing else compared(setup, precision)


def compared(setup: Setup, precision: str) -> Finding:
    """Where a scaler threw a gradient away, the reference makes no update either."""
    settings = setup.settings["amp"]
    low = cell(setup, f"trainer.precision={precision}")
    ours = logits(low)
    curve, skips = scaled(low, settings["steps"])
    del low
    setup.accelerator.forget()
    full = cell(setup)
    distance = relative(ours, logits(full))
    reference = list(losses(full, settings["steps"], without_update=skips))
    apart = deviation(curve, reference)
    return judged(
        distance <= settings["logits"][precision] and apart.share <= settings["losses"][precision],
        precision,
        found=f"logits {distance:.1e}, losses {apart}, {len(skips)} steps without an update",
        expected=f"at most {settings['logits'][precision]:.0e} and "
        f"{settings['losses'][precision]:.0e} from FP32",
        advice="train with trainer.precision=fp32, and send us the report",
        values=numbers(distance, apart) | {"skipped": sorted(skips)},
    )


def cell(setup: Setup, *more: str) -> Trainer:
    """The whole method without dropout, whose masks depend on the data type."""
    parts = ("size", "small", "no_burn_in", "no_dropout")
    cell = [o for part in parts for o in setup.settings[part]]
    return sure_teacher(setup.trainer(*cell, *setup.last_row, *more), setup.settings["sure"])


def scaled(trainer: Trainer, steps: int) -> tuple[Curve, set[int]]:
    """Losses of some steps, and those steps after which the gradient scaler lowered its scale."""
    curve, skips = [], set()
    scale = trainer.scaler.get_scale()
    for row in losses(trainer, steps):
        curve.append(row)
        if trainer.scaler.get_scale() < scale:
            skips.add(trainer.step - 1)
        scale = trainer.scaler.get_scale()
    return curve, skips


def relative(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference over that of the expected."""
    return float((found - expected).norm() / expected.norm())


def numbers(distance: float, apart: Deviation) -> dict[str, object]:
    """For the report."""
    return {"logits": distance, "losses": apart.share, "step": apart.step, "term": apart.term}
