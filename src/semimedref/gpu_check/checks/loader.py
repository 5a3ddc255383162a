"""Does the loader keep up, and does it hand over page-locked batches?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from semimedref.gpu_check.cell import Setup, batches, middle
from semimedref.gpu_check.finding import Finding, judged, skipped
from semimedref.trainer import Trainer


def check(setup: Setup) -> Iterator[Finding]:
    """Of the whole method, which reads two images for every labeled one."""
    settings = setup.settings["loader"]
    trainer = middle(setup.trainer(*setup.settings["size"], *setup.last_row))
    yield pinned(trainer)
    images = 2 * trainer.config.batch_size * trainer.config.accumulate
    loads = images / alone(trainer, warm_up=settings["warm_up"], count=settings["batches"])
    steps = images / _step(setup, trainer, settings["steps"])
    workers = trainer.hardware.workers
    yield judged(
        loads >= settings["margin"] * steps,
        "speed",
        found=f"the loader gives {loads:,.0f} images/s with {workers} workers, "
        f"a step takes {steps:,.0f}",
        expected=f"at least {settings['margin']:g} times as many",
        advice=f"train with hardware.workers={2 * max(workers, 1)}, or more, if there are cores",
        values={"loader_images_per_second": loads, "step_images_per_second": steps}
        | {"workers": workers},
    )


def pinned(trainer: Trainer) -> Finding:
    """Batches for a GPU lie in page-locked memory, so that their copies do not block."""
    if trainer.hardware.device.type != "cuda":
        return skipped("page-locked", "batches stay on the host")
    (labeled, _), *_ = next(batches(trainer, 1))
    names = ("image", "mask", "position", "uniform", "index")
    pageable = [name for name in names if not getattr(labeled, name).is_pinned()]
    return judged(
        not pageable,
        "page-locked",
        found=f"pageable: {', '.join(pageable)}" if pageable else "every tensor of a batch is",
        expected="every tensor of a batch in page-locked memory",
        advice="raise the limit of locked memory (`ulimit -l`), then run it again",
        values={},
    )


def alone(trainer: Trainer, *, warm_up: int, count: int) -> float:
    """Seconds a batch when nothing else is done, after the workers have started."""
    stream = batches(trainer, warm_up + count)
    for _ in range(warm_up):
        next(stream)
    start = time.perf_counter()
    for _ in stream:
        pass
    return (time.perf_counter() - start) / count


def _step(setup: Setup, trainer: Trainer, steps: int) -> float:
    """Median seconds of a step whose batch is there already."""
    (ready,) = batches(trainer, 1)

    def step() -> None:
        trainer.sums = {}
        trainer._optimize(ready)

    setup.accelerator.seconds(step, 2)
    return statistics.median(setup.accelerator.seconds(step, steps))
