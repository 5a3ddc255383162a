"""A locked cell: its losses on a CPU are stored in the project, and a GPU must repeat them.

Weights are drawn on the host, and every random number of a step comes from the loader, so data,
draws and first weights are the same on every device. Dropout is off: CPU and CUDA generators
differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from semimedref.config import compose, resolved, signature
from semimedref.gpu_check.cell import Setup, train
from semimedref.gpu_check.curve import Curve, deviation
from semimedref.gpu_check.finding import Finding, judged
from semimedref.gpu_check.tf32 import kept_flags, set_flags

GOLDEN = Path(__file__).parents[1] / "locked_cell.json"


def check(setup: Setup) -> Iterator[Finding]:
    """With every TF32 flag off, then with PyTorch's own flags."""
    settings, golden = setup.settings["locked"], json.loads(GOLDEN.read_text())
    found = signature_of(setup)
    yield judged(
        found == golden["signature"],
        "cell",
        found=f"signature {found}",
        expected=f"{golden['signature']}, of which the losses are stored",
        advice="leave the settings of gpu_check.locked.size as they are",
        values={},
    )
    with kept_flags():
        set_flags(False, False)
        exact = losses(setup)
    yield _compared("no TF32", exact, golden["losses"], settings["all"], settings)
    yield _compared(
        "PyTorch's own flags", losses(setup), golden["losses"], settings["flagged"], settings
    )


def losses(setup: Setup) -> list[dict[str, float]]:
    """The locked cell's losses on this device."""
    return train(setup.trainer(*cell(setup)), setup.settings["locked"]["steps"])


def cell(setup: Setup) -> list[str]:
    """Its overrides: the whole method, small, without dropout."""
    return [*setup.settings["locked"]["size"], *setup.last_row, *setup.settings["no_dropout"]]


def signature_of(setup: Setup) -> str:
    """What decides its losses, as of any run."""
    return signature(resolved(compose(setup.overrides(*cell(setup)))))


def _compared(
    subject: str, curve: Curve, golden: Curve, limit: float, settings: dict[str, Any]
) -> Finding:
    largest, first = deviation(curve, golden), deviation(curve[:1], golden[:1])
    strict = settings["first"] if limit == settings["all"] else limit
    last = curve[-1]["loss"] if curve else math.nan
    return judged(
        largest.share <= limit and first.share <= strict,
        subject,
        found=f"first step {first.share:.1e}, at most {largest}",
        expected=f"first step {strict:.0e}, at most {limit:.0e} of the CPU's loss",
        advice="do not train on this machine before this is understood; send us the report",
        values={
            "first": first.share,
            "largest": largest.share,
            "step": largest.step,
            "term": largest.term,
            "last_loss": last,
            "losses": list(curve),
        },
    )
