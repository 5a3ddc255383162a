"""Where the time of a training step goes, and how near each part is to the machine's limit.

    python -m benchmarks.profile scale=cpu [method=…] [any overrides] [--steps 10] [--threads 1]

Prints for every part of a step its time, its GFLOP (a multiplication and an addition are two), the
GFLOP/s that it reaches, and the share of the roofline: the time that its operations would take at
the machine's limit, divided by the time that they take. The limit of an operation is the larger of
its operations at the speed of a large matrix product and its bytes at the speed of a copy, both
measured here; small maps stay in the caches, so a part may exceed it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

_SEMI_MEDREF = ("method=teacher_student", "augment=semi_medref", "align=pacl")
_RANDOM = ("image_encoder.weights=random", "text_encoder.weights=random")


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile the steps of one configuration."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, e.g. scale=paper")
    parser.add_argument("--steps", type=int, default=10, help="timed steps after two others")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(asked.threads)
    print(profile(_completed(asked.overrides, asked.threads), steps=asked.steps))
    return 0


def profile(overrides: Sequence[str], *, steps: int) -> str:
    """The table of one configuration."""
    import torch

    from benchmarks import ledger
    from benchmarks.step import OurSteps
    from semimedref.config import compose
    from semimedref.run import Parts

    with TemporaryDirectory() as folder:
        parts = Parts.build(compose(list(overrides)))
        step = OurSteps(parts, Path(folder))
        step.fill_table()
        for _ in range(2):
            step()
        clock = time.perf_counter
        rates = _flop_rate(torch, clock), _byte_rate(torch, clock)
        book = ledger.Ledger(clock)
        with ledger.booked(step.trainer, book):
            for _ in range(steps):
                step()
        book.enter(ledger.REST)
        counted = ledger.Ledger(clock)
        with ledger.booked(step.trainer, counted), ledger.Traffic(counted) as traffic:
            step()
    seconds = {part: s / steps for part, s in book.seconds.items()}
    rows = [_HEAD]
    for part in ledger.in_order(seconds):
        least = traffic.least_seconds(part, flop_rate=rates[0], byte_rate=rates[1])
        rows.append(_row(part, seconds[part], sum(seconds.values()), traffic.flop[part], least))
    least = sum(traffic.least_seconds(p, flop_rate=rates[0], byte_rate=rates[1]) for p in seconds)
    total = sum(seconds.values())
    rows.append(_row("a step", total, total, sum(traffic.flop.values()), least))
    limits = f"limits: {rates[0] / 1e9:.0f} GFLOP/s in matrix products, {rates[1] / 1e9:.0f} GB/s"
    return "\n".join([limits, "", *_aligned(rows)])


_HEAD = ("part", "ms", "share", "GFLOP", "GFLOP/s", "of roofline")


def _completed(overrides: Sequence[str], threads: int) -> list[str]:
    """With what a profile needs: the phantom, no tracking, and random weights at full size."""
    given = {word.split("=", 1)[0].lstrip("+") for word in overrides}
    usual = ["dataset=phantom", *_SEMI_MEDREF, "tracking=off", f"hardware.threads={threads}"]
    if "scale=paper" in overrides:
        usual += [*_RANDOM, "trainer.batch_size=4"]
    wanted = [word for word in usual if word.split("=", 1)[0] not in given]
    if "method" in given:
        wanted = [word for word in wanted if word.split("=", 1)[0] not in ("augment", "align")]
    return [*overrides, *wanted]


def _row(part: str, seconds: float, total: float, flop: float, least: float) -> tuple[str, ...]:
    return (
        part,
        f"{1000 * seconds:.1f}",
        f"{100 * seconds / total:.0f} %",
        f"{flop / 1e9:.2f}" if flop else "",
        f"{flop / seconds / 1e9:.0f}" if flop and seconds else "",
        f"{100 * least / seconds:.0f} %" if seconds else "",
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    return [
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _flop_rate(torch, clock: Callable[[], float]) -> float:
    """Of a matrix product that is large and fits into the cache, the best of some."""
    n = 1024
    a = torch.rand(n, n)
    return 2 * n**3 / min(_timed(lambda: a @ a, clock) for _ in range(10))


def _byte_rate(torch, clock: Callable[[], float]) -> float:
    """Of copying 64 MiB, read and written, the best of some."""
    a = torch.rand(16 * 2**20)
    b = torch.empty_like(a)
    return 2 * a.numel() * a.itemsize / min(_timed(lambda: b.copy_(a), clock) for _ in range(10))


def _timed(call: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


if __name__ == "__main__":
    sys.exit(main())
