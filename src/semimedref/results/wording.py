"""Numbers and names as a reader sees them: percent, intervals, p values, metric names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semimedref.results.scoring import Score

METRICS = {
    "dice": "Dice",
    "miou": "mIoU",
    "dice_per_image": "Dice per image",
    "dice_shuffled": "Dice, shuffled text",
    "text_gap": "Text gap",
    "nsd": "NSD",
    "hd95": "HD95, px",
    "lesion_f1": "Lesion F1",
    "lesion_recall": "Lesion recall",
    "lesion_precision": "Lesion precision",
    "lesion_score": "Lesion score",
    "position_overlap": "Position overlap",
    "gap_same_partial": "Same − partial",
    "gap_partial_none": "Partial − none",
    "ordered_queries": "Ordered queries",
    "spearman": "Spearman",
    "map": "mAP",
    "auroc": "AUROC",
    "f1": "F1",
    "params": "Params",
    "gflops": "GFLOPs",
    "parameters": "Trainable",
    "step_ms": "Step, ms",
    "memory_mb": "Memory, MB",
}
IN_PIXELS = ("hd95",)  # distances: not shown in percent, and the smaller the better
_OPTIONS = {"qata_cov19": "QaTa-COV19", "mosmed_plus": "MosMedData+", "posmed": "PosMed",
            "brain_mri": "Brain MRI", "breast_ultrasound": "Breast US",
            "polyp_endoscopy": "Polyp endoscopy", "skin_dermoscopy": "Skin dermoscopy"}  # fmt: skip


def metric(name: str) -> str:
    """A metric's name."""
    return METRICS.get(name, name)


def option(name: str) -> str:
    """An option for the eye: ``2pct`` is printed as ``2 %``, data sets as the paper writes them."""
    shown = re.sub(r"^(\d+(?:[._]\d+)?)pct$", lambda m: m[1].replace("_", ".") + " %", name)
    return _OPTIONS.get(name, shown)


def place(row: str, column: Sequence[str]) -> str:
    """A row and its column values in words: ``Baseline, 2 %``."""
    return ", ".join([row, *(option(value) for value in column)])


def percent(value: float | None, digits: int = 2) -> str:
    """A fraction as percent, or a dash."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def score(found: Score, name: str = "dice") -> str:
    """Mean ± deviation, in percent unless the metric has a unit; no ± for one seed."""
    scale = 0.01 if name in IN_PIXELS else 1.0
    if found.mean is None:
        return percent(None)
    spread = "" if found.std is None else f" ± {percent(scale * found.std)}"
    return percent(scale * found.mean) + spread


def interval(found: Score) -> str:
    """The interval in percent."""
    return f"[{percent(found.ci[0], 1)}, {percent(found.ci[1], 1)}]" if found.ci else "–"


def p_value(p: float) -> str:
    """A p value, never printed as zero."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
