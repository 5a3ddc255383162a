"""The same training twice, in two processes, and once stopped half-way and resumed: equal bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.finding import FAILED, Finding, judged
from semimedref.gpu_check.trace import traced

Trace = Mapping[str, Any]


def check(setup: Setup) -> Iterator[Finding]:
    """Losses, weights of both networks, projections and optimizer after the same steps."""
    steps = setup.settings["determinism"]["steps"]
    first = _traced(setup, "first", stop=steps)
    if first["alerts"]:
        yield _alert(first["alerts"])
        return
    second = _traced(setup, "second", stop=steps)
    workspace = {"cublas_workspace": first["cublas_workspace"], "steps": steps}
    yield compared("two processes", second, first, workspace)
    half = mkdtemp(dir=setup.folder, prefix="half-")
    _traced(setup, "stopped", stop=steps // 2, folder=half)
    yield compared("resumed half-way", _traced(setup, "resumed", stop=steps, folder=half), first)


def compared(
    subject: str, trace: Trace, reference: Trace, values: Mapping[str, Any] | None = None
) -> Finding:
    """Equal to the last bit, or where they part first."""
    ours, theirs = trace["losses"], reference["losses"]
    shared = {step: loss for step, loss in theirs.items() if step in ours}
    parted = [step for step, loss in shared.items() if ours[step] != loss]
    names = reference["tensors"].keys() | trace["tensors"].keys()
    others = sorted(n for n in names if trace["tensors"].get(n) != reference["tensors"].get(n))
    found = f"{len(shared)} losses and {len(names)} tensors are equal to the last bit"
    if parted:
        found = f"the losses part at step {int(parted[0]) + 1}"
    elif others or not shared:
        found = f"{len(others)} of {len(names)} tensors differ, first {others[0] if others else ''}"
    return judged(
        bool(shared) and not parted and not others,
        subject,
        found=found,
        expected="the same bits",
        advice="an operator is not deterministic and does not say so: send us the report",
        values={**(values or {}), "tensors": len(names), "different": others[:20]},
    )


def _traced(setup: Setup, name: str, *, stop: int, folder: str | None = None) -> Trace:
    """A training in a process of its own, with dropout, every loss on from the first step."""
    settings = setup.settings
    parts = ("size", "small", "no_burn_in")
    cell = [*(o for part in parts for o in settings[part]), *setup.last_row]
    return traced(
        setup.overrides(*cell),
        stop=stop,
        folder=Path(folder or mkdtemp(dir=setup.folder, prefix="trace-")),
        out=setup.folder / f"{name}.json",
    )


def _alert(operators: list[str]) -> Finding:
    return Finding(
        "",
        FAILED,
        f"torch refuses to be deterministic in {', '.join(operators)}",
        "no operator without a deterministic kernel",
        "send us the report; hardware.deterministic=false trains without repeatable bits",
        {"operators": operators},
    )
