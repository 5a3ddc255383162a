"""torch.compile against eager: the same numbers within tolerance, and what compiling costs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from semimedref.gpu_check.cell import Setup, losses, train
from semimedref.gpu_check.checks.amp import cell
from semimedref.gpu_check.curve import deviation
from semimedref.gpu_check.finding import Finding, judged


def check(setup: Setup) -> Iterator[Finding]:
    """The whole method, step by step."""
    settings = setup.settings["compile"]
    steps = settings["steps"]
    eager = train(cell(setup, *settings["ramp"]), steps)
    setup.accelerator.forget()
    torch._dynamo.utils.counters.clear()
    trainer = cell(setup, *settings["ramp"], "hardware.compile=true")
    start = time.perf_counter()
    rows = losses(trainer, steps)
    curve = [next(rows)]
    first = time.perf_counter() - start
    curve += rows
    total = time.perf_counter() - start
    apart = deviation(curve, eager)
    yield judged(
        apart.share <= settings["losses"],
        "losses",
        found=f"{apart}; the first step took {first:.0f} s, all {steps} took {total:.0f} s",
        expected=f"at most {settings['losses']:.0e} from eager",
        advice="train with hardware.compile=false, the default",
        values={"losses": apart.share, "first_seconds": first, "total_seconds": total},
    )
    yield _graphs(settings["graphs"])


def _graphs(limit: int) -> Finding:
    """A step that is compiled anew whenever a number changes is slower than eager."""
    counters = torch._dynamo.utils.counters
    graphs = counters["stats"]["unique_graphs"]
    breaks = {str(reason)[:200]: count for reason, count in counters["graph_break"].items()}
    return judged(
        graphs <= limit,
        "graphs",
        found=f"{graphs} graphs, {sum(breaks.values())} breaks",
        expected=f"at most {limit} graphs",
        advice="train with hardware.compile=false, the default, and send us the report",
        values={"graphs": graphs, "breaks": breaks},
    )
