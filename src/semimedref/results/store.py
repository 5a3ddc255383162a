"""Read what a run left in its folder, and say in which state it is.

The folder is the truth: nothing here writes, and nothing is cached between calls. What thousands of
folders hold is asked through ``results/index.py``, which remembers files that have not changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast

from semimedref.errors import UserError
from semimedref.owner import is_owned

if TYPE_CHECKING:
    import pandas as pd

State = Literal["done", "running", "queued", "failed", "paused", "missing"]
STATES: tuple[State, ...] = ("done", "running", "queued", "failed", "paused", "missing")
COUNTS = ("tp", "fp", "fn")

Best = TypedDict("Best", {"epoch": int, "val/dice": float})


class Parameters(TypedDict):
    """How many weights the model has, and how many of them learn."""

    total: int
    trainable: int


class Data(TypedDict, total=False):
    """What a result says about a data set of files; a synthetic one says nothing."""

    layout: str
    annotation_sha256: dict[str, str]
    images: dict[str, int]
    labeled: dict[str, object]
    partition_sha256: str
    texts_sha256: str
    cache: str
    warnings: list[str]


class Result(TypedDict, total=False):
    """``result.json``: a finished run, with scores as fractions between 0 and 1."""

    status: str
    signature: str
    name: str
    config: dict[str, object]
    experiment: str | None
    row: str | None
    version: str
    metric_definition: int
    git_commit: str | None
    data: Data
    environment: dict[str, object]
    precision: dict[str, object]
    device: str
    wall_seconds: float
    step_seconds: float | None
    peak_memory_bytes: int
    parameters: Parameters
    epochs: int
    steps: int
    best: Best
    selected_on: str  # the split that chose the epoch; runs before it was written: valid
    test: dict[str, float | None]
    finished: float


@dataclass(frozen=True)
class Overlay:
    """One picture of ``overlays/``: a test image with its sentence and the model's Dice."""

    id: str
    text: str
    dice: float
    path: Path
    kind: str
    position: str = ""  # regions by name; runs before it was written have none
    error: str = ""  # a kind of ``error_kind.py``, likewise


def state(folder: Path) -> State:
    """Say whether a run is done, running, failed, paused or missing; ``queued`` knows SLURM."""
    if (folder / "result.json").exists() and load_result(folder).get("status") == "done":
        return "done"
    return unfinished_state(folder)


def look(folder: Path) -> tuple[State, Result | None]:
    """The state of a run, and its result if it is done."""
    found = state(folder)
    return found, load_result(folder) if found == "done" else None


def unfinished_state(folder: Path) -> State:
    """The state of a run that has no result; asked each time, since a lock can end at any time."""
    if is_owned(folder):
        return "running"
    if (folder / "failure.json").exists():
        return "failed"
    return "paused" if (folder / "last.pt").exists() else "missing"


def main_score(scores: Mapping[str, float | None], prefix: str = "") -> float | None:
    """The score that selects: Dice of masks, else mAP of positions."""
    found = (scores.get(f"{prefix}{name}") for name in ("dice", "map"))
    return next((value for value in found if value is not None), None)


def load_result(folder: Path) -> Result:
    """Read ``result.json``."""
    path = folder / "result.json"
    data = _read_object(path)
    if data.get("status") == "done":
        for key in ("test", "config"):
            if not isinstance(data.get(key), dict):
                raise _broken(path, f"has no {key!r} object")
    return cast(Result, data)


def load_run(folder: Path) -> dict[str, object]:
    """Read ``run.json``: the configuration with which the run was started, and its name."""
    path = folder / "run.json"
    run = _read_object(path)
    if not isinstance(run.get("config"), dict):
        raise _broken(path, "has no 'config' object")
    return run


def load_config(folder: Path) -> dict[str, object]:
    """Read the resolved configuration with which the run was started."""
    return cast(dict[str, object], load_run(folder)["config"])


def load_failure(folder: Path) -> str:
    """Return the error line of the last attempt."""
    lines = str(_read_object(folder / "failure.json").get("error", "")).strip().splitlines()
    return lines[0] if lines else "no message"


def is_lost(folder: Path) -> bool:
    """Whether the last attempt was taken away (cancelled, its node gone), and did not fail."""
    return bool(_read_object(folder / "failure.json").get("lost"))


def load_metrics(folder: Path) -> list[dict[str, float]]:
    """Read ``metrics.jsonl``, one dictionary an epoch; empty before the first epoch has ended.

    A last line that is still being written is left out.
    """
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    rows = []
    lines = _read_text(path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if not line.endswith("\n"):
                break
            raise _broken(path, f"line {number} is not JSON ({error.msg})") from None
        if not isinstance(row, dict) or "epoch" not in row:
            raise _broken(path, f"line {number} is not an object with an 'epoch'")
        rows.append(row)
    return rows


def load_per_image(folder: Path) -> pd.DataFrame:
    """Read ``per_image.csv``: id and patient as text, tp, fp and fn as integers, dice."""
    import pandas as pd

    path = folder / "per_image.csv"
    try:
        frame = pd.read_csv(path, dtype={"id": str, "patient": str}, keep_default_na=False)
    except FileNotFoundError:
        raise _broken(path, "does not exist") from None
    except (ValueError, OSError) as error:
        raise _broken(path, f"is not a CSV table ({_first_line(error)})") from None
    missing = [name for name in ("id", "patient", *COUNTS, "dice") if name not in frame.columns]
    if missing:
        raise _broken(path, f"lacks the columns {', '.join(missing)}")
    if frame.empty:
        raise _broken(path, "has no rows")
    for name in COUNTS:
        if frame[name].dtype.kind not in "iu" or (frame[name] < 0).any():
            raise _broken(path, f"holds values in {name!r} that are not counts")
    if frame["id"].duplicated().any():
        raise _broken(path, "lists an image twice")
    return frame


def load_overlays(folder: Path) -> list[Overlay]:
    """Read ``overlays/index.json``; no overlays is an empty list."""
    path = folder / "overlays" / "index.json"
    if not path.exists():
        return []
    entries = _read_json(path)
    if not isinstance(entries, list):
        raise _broken(path, "is not a list")
    overlays = []
    for entry in entries:
        try:
            # Only the name counts: an index never reaches outside its own folder.
            file = path.parent / Path(str(entry["file"])).name
            overlays.append(
                Overlay(
                    id=str(entry["id"]),
                    text=str(entry["text"]),
                    dice=float(entry["dice"]),
                    path=file,
                    kind=str(entry["kind"]),
                    position=str(entry.get("position", "")),
                    error=str(entry.get("error", "")),
                )
            )
        except (KeyError, TypeError, ValueError):
            raise _broken(path, "has an entry without id, text, dice, file and kind") from None
    return overlays


def _read_object(path: Path) -> dict[str, object]:
    data = _read_json(path)
    if not isinstance(data, dict):
        raise _broken(path, "is not a JSON object")
    return data


def _read_json(path: Path) -> object:
    try:
        return json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise _broken(path, f"is not valid JSON ({error})") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _broken(path, "does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(path, f"cannot be read ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _broken(path: Path, found: str) -> UserError:
    return UserError(
        f"{path} {found}: the run is not finished, or the file was damaged; `semimedref status "
        "experiment=NAME` shows the cell. To make a damaged run again, move its folder away and "
        "give the same train command"
    )
