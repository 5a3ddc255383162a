"""No step of the ladder makes the host wait for the GPU: no synchronization, no pageable copy."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import semimedref
from semimedref.gpu_check.cell import Setup, batches, middle
from semimedref.gpu_check.copies import Copies
from semimedref.gpu_check.finding import FAILED, Finding, judged, skipped
from semimedref.trainer import Trainer

OURS = Path(semimedref.__file__).parent


def check(setup: Setup) -> Iterator[Finding]:
    """Every row: the loader's batches, copies, plan, step, backward, optimizer, teacher."""
    for label, row in setup.ladder.items():
        trainer = middle(setup.trainer(*setup.settings["size"], *row))
        yield watched(setup, label, trainer)
        del trainer
        setup.accelerator.forget()


def watched(setup: Setup, label: str, trainer: Trainer) -> Finding:
    """Some steps after warm-up, in which waiting is an error."""
    settings = setup.settings["sync"]
    warm_up, steps = settings["warm_up"], settings["steps"]
    copies = Copies(setup.accelerator.device.type)
    for place, micro_batches in enumerate(batches(trainer, warm_up + steps)):
        trainer.sums = {}
        if place < warm_up:
            with copies:
                trainer._optimize(micro_batches)
            continue
        if place == warm_up:
            setup.accelerator.synchronize()
        try:
            with setup.accelerator.no_sync():
                trainer._optimize(micro_batches)
        except RuntimeError as error:
            if "synchroniz" not in str(error):
                raise
            return _waits(label, error)
    if not setup.accelerator.watches:
        return skipped(label, f"{steps} steps ran; only a GPU can be waited for")
    return _copied(label, copies, settings["pageable_bytes"], steps)


def _waits(label: str, error: RuntimeError) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if Path(f.filename).is_relative_to(OURS)]
    own = [f for f in inside if "gpu_check" not in Path(f.filename).parts] or inside or frames
    last = own[-1]
    name = Path(last.filename)
    name = name.relative_to(OURS.parent) if name.is_relative_to(OURS) else Path(name.name)
    return Finding(
        label,
        FAILED,
        f"the host waits for the GPU in {name.as_posix()}:{last.lineno} ({last.name}): {last.line}",
        "no synchronization in a step",
        "send us the report: training is right, but slower than it could be",
        {"calls": [f"{Path(f.filename).name}:{f.lineno} {f.line}" for f in frames]},
    )


def _copied(label: str, copies: Copies, limit: int, steps: int) -> Finding:
    large = copies.above(limit)
    return judged(
        not large,
        label,
        found=f"{steps} steps without waiting, {copies.summary()}"
        if not large
        else f"a copy of {large[0].bytes:,} bytes from pageable memory at {large[0].place}",
        expected=f"page-locked memory for copies of more than {limit:,} bytes",
        advice="send us the report: training is right, but slower than it could be",
        values={"copies": [vars(copy) for copy in copies.seen]},
    )
