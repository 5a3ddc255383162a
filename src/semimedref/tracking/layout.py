"""How a run is laid out in MLflow, so that its own pages answer the everyday questions.

Runs are called by row, ratio and seed; metrics are grouped by the word before the slash, which
MLflow's charts fold together; and every run of an experiment has the same table of test images.
docs/tracking.md shows which page answers what.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping

from semimedref.config import labels
from semimedref.error_kind import kind_of_image

VERSION = "2"  # raised when names or places change: runs of another layout are mirrored anew
TABLE = "per_image.json"
# What an epoch writes without a group. MLflow shows groups by their letters: resources, test,
# train, val, view (the overlays).
_GROUPS = {"epoch": "resources/epoch", "seconds": "resources/seconds", "lr": "train/lr",
           "step_seconds": "resources/step_seconds"}  # fmt: skip
_RESOURCES = ("wall_seconds", "step_seconds", "peak_memory_bytes")  # of a result
_COUNTS = ("tp", "fp", "fn")
_NAMES = ("id", "patient", "position", "dice", *_COUNTS)


def run_title(run: Mapping) -> str:
    """Row, ratio and seed, and enough of the signature to tell two cells of a grid apart."""
    words = labels(run["config"])
    row = run["row"] or f"{words['method']} {words['model']}"
    return f"{row} · {words['ratio']} · {words['seed']} · {run['signature'][:4]}"


def note(run: Mapping) -> str:
    """What MLflow shows as the description of a run: where it is, and the command for it."""
    lines = [f"Run folder: `{run['name']}`"]
    if run["experiment"]:
        only = "" if run["config"].get("study") else f" only={run['name']}"  # a trial has no cell
        command = f"semimedref train -m experiment={run['experiment']}{only}"
        lines += ["", f"    {command}", f"    semimedref table experiment={run['experiment']}"]
    return "\n".join(lines)


def metric_name(key: str) -> str:
    """The name of a metric in a group."""
    return _GROUPS.get(key, key)


def summary(result: Mapping) -> dict[str, object]:
    """What a result adds to the columns of MLflow's table."""
    best, weights = result.get("best") or {}, result.get("parameters") or {}
    resources = {f"parameters_{key}": value for key, value in weights.items()}
    resources |= {key: result.get(key) for key in _RESOURCES}
    resources["best_epoch"] = best.get("epoch")
    chosen = {f"best_{k.removeprefix('val/')}": v for k, v in best.items() if k != "epoch"}
    return {"test": result.get("test") or {}, "val": chosen, "resources": resources}


def image_table(per_image: str, *, names: bool) -> str | None:
    """The test images as the table that MLflow sets side by side over runs; None if it is empty.

    Args:
        per_image: the text of ``per_image.csv``.
        names: whether images keep their names; else they are named by their line. Patients are
            always counted anew.
    """
    images = list(csv.DictReader(io.StringIO(per_image)))
    if not images or not {"id", "patient", "dice", *_COUNTS} <= set(images[0]):
        return None
    patients = {
        name: i for i, name in enumerate(dict.fromkeys(one["patient"] for one in images), 1)
    }
    others = [key for key in images[0] if key not in _NAMES]
    rows = [
        [
            one["id"] if names else f"line {line}",
            float(one["dice"]),
            kind_of_image(one),
            one.get("position") or "",
            patients[one["patient"]],
            *(int(one[key]) for key in _COUNTS),
            *(_value(one[key]) for key in others),
        ]
        for line, one in enumerate(images, start=2)
    ]
    # MLflow groups by the first column and compares the second, until it is told otherwise.
    columns = ["image", "dice", "error", "position", "patient", *_COUNTS, *others]
    return json.dumps({"columns": columns, "data": rows})


def _value(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return text or None
