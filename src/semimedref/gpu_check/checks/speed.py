"""Step time, images/s, memory and TFLOP/s of every ladder row at the paper's size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import torch

from semimedref.gpu_check.accelerator import lacks
from semimedref.gpu_check.cell import Setup, batches, middle
from semimedref.gpu_check.finding import FAILED, Finding, ok, skipped
from semimedref.gpu_check.tf32 import kept_flags
from semimedref.planning.meter import Meter
from semimedref.trainer import Trainer

GIGABYTE = 1024**3
_SWITCHES = {
    "fp32": [],
    "tf32": ["hardware.tf32=true"],
    "bf16": ["trainer.precision=bf16"],
    "fp16": ["trainer.precision=fp16"],
}


def check(setup: Setup) -> Iterator[Finding]:
    """Every row in FP32, then the whole method in other precisions."""
    for label, row in setup.ladder.items():
        yield fitting(setup, label, [*setup.settings["size"], *row])
    label, row = list(setup.ladder.items())[-1]
    for precision in setup.settings["speed"]["precisions"]:
        subject = f"{label}, {precision}"
        missing = lacks(setup.accelerator, precision)
        if missing:
            yield skipped(subject, missing)
            continue
        cell = [*setup.settings["size"], *row, *_SWITCHES[precision]]
        with kept_flags():
            finding = fitting(setup, subject, cell, precision=precision)
        yield finding


def fitting(setup: Setup, label: str, cell: list[str], *, precision: str = "fp32") -> Finding:
    """Measure at the batch of the paper; where that does not fit, at the next half that does."""
    size = wanted = None
    while size is None or size >= 1:
        more = [] if size is None else [f"trainer.batch_size={size}"]
        setup.accelerator.forget()
        try:
            values = measured(setup, [*cell, *more]) | {"precision": precision}
        except torch.OutOfMemoryError:
            size = _batch_size(setup, cell) if size is None else size
            wanted, size = wanted or size, size // 2
            continue
        return _described(label, values, wanted)
    return Finding(
        label,
        FAILED,
        "not even one labeled and one unlabeled image fit into the memory",
        f"{wanted} + {wanted} images",
        "is another program using the GPU? `nvidia-smi` lists them",
    )


def measured(setup: Setup, cell: list[str]) -> dict[str, float]:
    """Time, memory and arithmetic of a step in the middle of training."""
    settings, accelerator = setup.settings["speed"], setup.accelerator
    trainer = middle(setup.trainer(*cell))
    ready = list(batches(trainer, 2))
    calls = iter(range(10**9))

    def step() -> None:
        trainer.sums = {}
        trainer._optimize(ready[next(calls) % len(ready)])

    accelerator.seconds(step, settings["warm_up"])
    accelerator.synchronize()
    start = time.perf_counter()
    step()
    host = time.perf_counter() - start  # what the host needs to hand a step over
    accelerator.synchronize()
    seconds = statistics.median(accelerator.seconds(step, settings["steps"]))
    memory = accelerator.memory()  # before the counter, which keeps more alive
    flop = operations(step)
    images = _images(trainer)
    return {
        "batch_size": trainer.config.batch_size,
        "step_seconds": seconds,
        "host_seconds": host,
        "images_per_second": images / seconds,
        "flop_per_step": flop,
        "tflops": flop / seconds / 1e12,
        **{f"{name}_bytes": value for name, value in memory.items()},
    }


def operations(step: Callable[[], object]) -> int:
    """Floating-point operations of a step: products and convolutions, forward and backward."""
    with Meter() as meter:  # as the plan counts, so that its hours follow from these numbers
        step()
    return meter.flops


def _images(trainer: Trainer) -> int:
    """Images that a step reads: labeled, and as many unlabeled if the method takes them."""
    pools = 2 if trainer.data.unlabeled is not None else 1
    return pools * trainer.config.batch_size * trainer.config.accumulate


def _batch_size(setup: Setup, cell: list[str]) -> int:
    from semimedref.config import compose

    return int(compose(setup.overrides(*cell)).trainer.batch_size)


def _described(label: str, values: dict[str, float], wanted: int | None) -> Finding:
    found = (
        f"{1000 * values['step_seconds']:,.1f} ms a step, "
        f"{values['images_per_second']:,.1f} images/s, "
        f"{values['allocated_bytes'] / GIGABYTE:.2f} GB, {values['tflops']:.3g} TFLOP/s"
    )
    if wanted is None:
        return ok(label, found, **values)
    size = int(values["batch_size"])
    return Finding(
        label,
        FAILED,
        f"{wanted} + {wanted} images do not fit; {size} + {size} do: {found}",
        f"{wanted} + {wanted} images in {values.get('total_bytes', 0) / GIGABYTE:.1f} GB",
        f"train with trainer.batch_size={size} trainer.accumulate={wanted // size}",
        values,
    )
