"""A plan in words and numbers, for the terminal and as CSV. Every number is an estimate."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from semimedref.planning.plan import Line, Plan, plan_experiment
from semimedref.results.grid import grid
from semimedref.results.store import STATES

if TYPE_CHECKING:
    from semimedref.sweep import Cell, Experiment

_HEAD = ("cells", "runs", "to do", "steps", "PFLOP", "GPU hours", "GPU GiB", "disk GB")
_NOTHING = "nothing to train: every row is reported"


def plan_text(
    experiment: Experiment, cells: Sequence[Cell] | None = None, *, why: bool = False
) -> str:
    """What an experiment will cost, as ``semimedref plan`` and a dry run print it.

    Args:
        experiment: expanded, with the states of its runs read from its run root.
        cells: only these of its cells (``only=``).
        why: the formulas behind the numbers, too.
    """
    return render(plan_experiment(experiment, cells), why=why)


def render(plan: Plan, *, why: bool = False) -> str:
    """Counts, a table, the sums, and on demand how they come about."""
    total = plan.total
    if plan.gpu is None:
        return f"{plan.name}: {_NOTHING}\n"
    states = ", ".join(f"{n} {state}" for state, n in plan.own.states.items())
    parts = [f"{plan.name}: {total.cells} cells, {len(plan.own.runs)} runs: {states}"]
    further = len(plan.needed.runs)
    if further:
        parts.append(f"{further} further {'runs' if further > 1 else 'run'} that others start from")
    parts += [f"not in the sums: {reason}" for reason in plan.unknown]
    if total.open:
        lines = [[plan.what, *_HEAD], *(_row(line, plan) for line in plan.shown)]
        parts += ["", *grid(lines), "", *_sums(plan)]
    else:
        parts.append("nothing is left to do")
    if total.open and why:
        parts += ["", *_reasons(plan)]
    return "\n".join(parts) + "\n"


def csv_text(plan: Plan) -> str:
    """A line for each line of the plan and for the sum, in plain units."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = ("to_do", "steps", "flops", "gpu_hours", "gpu_bytes", "disk_bytes", "disk_peak_bytes")
    writer.writerow([plan.what, "cells", "runs", *STATES, *numbers])
    gpus = plan.at_once
    for line in plan.shown:
        states = [line.states.get(state, 0) for state in STATES]
        steps, flops = (sum(getattr(r, key) for r in line.open) for key in ("steps", "flops"))
        memory = _on_gpu(line, plan) if line.memory else 0
        more = [f"{line.gpu_hours:.3f}", memory, line.end_bytes, line.peak_bytes(gpus)]
        counts = [line.cells, len(line.runs), *states, len(line.open), steps, f"{flops:.4g}"]
        writer.writerow([line.label, *counts, *more])
    return text.getvalue()


def _row(line: Line, plan: Plan) -> list[str]:
    steps, flops = (sum(getattr(r, key) for r in line.open) for key in ("steps", "flops"))
    counts = [line.cells, len(line.runs), len(line.open)]
    memory = f"{_on_gpu(line, plan) / 2**30:.1f}" if line.memory else "–"
    disk = number(line.end_bytes / 1e9)
    shown = [f"{steps:,}", number(flops / 1e15), number(line.gpu_hours), memory, disk]
    return [line.label, *map(str, counts), *shown]


def number(value: float) -> str:
    """Three digits that count, and no more behind the point than two."""
    if 0 < value < 0.01:
        return "< 0.01"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _on_gpu(line: Line, plan: Plan) -> int:
    reserve = plan.gpu.reserve_gib if plan.gpu else 0.0
    return line.memory + int(reserve * 2**30)


def _sums(plan: Plan) -> list[str]:
    """Hours, memory and disk of all together."""
    gpu, total = plan.gpu, plan.total
    assert gpu is not None, "a plan without a GPU has no sums"
    speeds = ", ".join(f"{gpu.rate(p) / 1e12:.1f} TFLOP/s in {p}" for p in plan.precisions)
    needed = _on_gpu(total, plan) / 2**30
    fits = "" if gpu.memory_gib is None else f" of {gpu.memory_gib:g}"
    if gpu.memory_gib is not None and needed > gpu.memory_gib:
        fits += ": it does not fit; halve trainer.batch_size and double trainer.accumulate"
    peak = total.peak_bytes(plan.at_once) / 1e9
    batch = plan.most_at_once is not None and plan.most_at_once <= gpu.at_once
    more = "search.batch=… trains more at once" if batch else "gpu.at_once=… for another number"
    beside = {
        "decoded pictures": plan.cache_bytes,
        "pretrained encoders": plan.pretrained_bytes,
        "a copy of the code": plan.code_bytes,
    }
    listed = ", ".join(f"{number(size / 1e9)} GB {name}" for name, size in beside.items() if size)
    rows = [
        ["Estimate", f"for {gpu.name} ({speeds}); gpu=… for another, why=true for the formulas"],
        ["GPU hours", f"{number(total.gpu_hours)}{_early(plan)}"],
        ["wall time", f"{number(total.wall_hours(plan.at_once))} h on {plan.at_once} GPUs at once, "
                      f"without waiting in a queue; {more}"],
        ["GPU memory", f"{needed:.1f} GiB{fits}, largest cell"],
        ["disk", f"{number(total.end_bytes / 1e9)} GB of runs at the end, {number(peak)} GB while "
                 f"{plan.at_once} train"],
        ["beside it", listed],
    ]  # fmt: skip
    return grid(rows, left=2)


def _early(plan: Plan) -> str:
    found = {run.earliest for run in plan.total.open if run.earliest}
    if not found:
        return ""
    first, epochs = min(found)
    return f" at most: a run may stop early, after {first} of {epochs} epochs or later"


def _reasons(plan: Plan) -> list[str]:
    gpu = plan.gpu
    assert gpu is not None, "a plan without a GPU has no formulas"
    shares = ", ".join(
        f"{gpu.peak_tflops[p]:g} TFLOP/s x {gpu.sustained[p]:g} in {p}" for p in plan.precisions
    )
    formulas = {
        "steps": "epochs x images of the larger pool / batch, rounded up; epochs on disk are not "
        "counted again",
        "FLOP": "counted in the real step on tensors without data: convolutions, matrix products "
        "and attention, 2 for a multiplication and an addition; forward, backward, teacher, text "
        "encoder; validation every epoch, all readings of the test set",
        "GPU hours": f"the sum over steps of max(FLOP / speed, kernels x {gpu.launch_us:g} us); "
        f"speed = peak x sustained share = {shares} (conf/gpu says where both come from)",
        "wall time": "the longest runs first, each on the GPU that is free next, none before a run "
        "that it starts from",
        "GPU GiB": "weights of all networks + 2 averages of AdamW + the largest sum of live "
        f"tensors in a step (activations, gradients) + {gpu.reserve_gib:g} GiB for CUDA",
        "disk GB": "best.pt (weights that learn, of student and teacher, in FP32) + numbers; while "
        "a run trains also last.pt (those, and AdamW's averages), twice during a save",
        "pictures": "images and masks of every split, a byte a pixel",
    }
    lines = ["How the numbers come about (each an estimate):"]
    for name, formula in formulas.items():
        lines += wrap(f"  {name:9s}  {formula}", width=100, subsequent_indent=" " * 13)
    return lines
