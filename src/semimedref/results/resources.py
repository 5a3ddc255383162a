"""What the runs of a row took, as their results say: weights that learn, time of a step, memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from semimedref.errors import UserError

if TYPE_CHECKING:
    from semimedref.results.runs import Run
    from semimedref.results.store import Result
    from semimedref.results.table import Entry

NAMES = ("parameters", "step_ms", "memory_mb")
_MEASURED = ("step_ms", "memory_mb")  # these depend on the machine
_NOTE = (
    "Step: median optimizer step with its data, of the last stage; memory: peak of the process "
    "(of the GPU where there is one)."
)
_LEARNING = "Trainable: weights that learn in what predicts."


def measured(runs: Iterable[Run], names: Sequence[str]) -> dict[str, float]:
    """Each resource over the finished runs of a line; one that no result tells is left out."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise UserError(
            f"table.resources names {unknown[0]!r}: expected of {', '.join(NAMES)} "
            "(what is counted without a run stands in table.cost)"
        )
    results = [run.result for run in runs if run.result is not None]
    found = {name: _READ[name](results) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def notes(names: Iterable[str], entries: Iterable[Entry]) -> list[str]:
    """What such columns show, and whether the rows may be compared in them."""
    shown = [name for name in names if name in NAMES]
    lines = [_LEARNING] if "parameters" in shown else []
    if not set(shown) & set(_MEASURED):
        return lines
    results = [run.result for entry in entries for run in entry.done if run.result is not None]
    machines = {str(r.get("environment", {}).get("processor") or "") for r in results} - {""}
    threads = {str(r.get("precision", {}).get("threads") or "") for r in results} - {""}
    kinds = (("machines", machines), ("numbers of threads", threads))
    return [*lines, _NOTE] + [
        f"Warning: step and memory were measured with different {kind} "
        f"({', '.join(sorted(values))}); they cannot be compared."
        for kind, values in kinds
        if len(values) > 1
    ]


def text(name: str, value: float) -> str:
    """A resource as it stands in its column."""
    if name == "parameters":
        return _short(value)
    return f"{value:.1f}" if name == "step_ms" and value < 100 else f"{value:,.0f}"


def _short(number: float) -> str:
    """A number of weights in millions or thousands."""
    if number >= 999_950:
        return f"{number / 1e6:.2f} M"
    return f"{number / 1e3:.1f} k" if number >= 1000 else f"{number:.0f}"


def _learning(results: Sequence[Result]) -> float | None:
    known = [r["parameters"]["trainable"] for r in results if "parameters" in r]
    return max(known, default=None)


def _step(results: Sequence[Result]) -> float | None:
    """Results that are older than this number have none; nothing else stands for it."""
    known = [seconds for r in results if (seconds := r.get("step_seconds")) is not None]
    return 1000 * statistics.median(known) if known else None


def _memory(results: Sequence[Result]) -> float | None:
    known = [r["peak_memory_bytes"] / 1e6 for r in results if "peak_memory_bytes" in r]
    return max(known, default=None)


_READ: dict[str, Callable[[Sequence[Result]], float | None]] = {
    "parameters": _learning,
    "step_ms": _step,
    "memory_mb": _memory,
}
