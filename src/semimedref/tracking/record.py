"""What a run folder has to say, in MLflow's terms: params, tags, metrics, files, status."""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from semimedref.config import is_synthetic, labels
from semimedref.errors import UserError
from semimedref.owner import is_owned
from semimedref.tracking import layout
from semimedref.tracking.studies import study_tags

# The lowest limits among MLflow's stores and versions; run.json holds the full text.
_KEY_LENGTH = 250
_VALUE_LENGTH = 500
_NOT_METRICS = ("step", "time")  # MLflow has both beside each value


@dataclass(frozen=True)
class Point:
    """One value of one metric; `time` in milliseconds."""

    key: str
    step: int
    value: float
    time: int


@dataclass(frozen=True)
class Record:
    """The content of a run folder at one moment."""

    folder: Path
    run: dict
    result: dict | None
    failure: dict | None
    rows: list[dict]
    status: str  # done | failed | running | paused

    @property
    def experiment(self) -> str | None:
        """The MLflow experiment that the run was started for."""
        tracking = self.run["config"].get("tracking") or {}
        return tracking.get("experiment") or self.run["experiment"]

    @property
    def ended(self) -> float:
        """When the last thing happened in this folder, in seconds."""
        if self.status == "done":
            return self.result["finished"]
        if self.status == "failed":
            return self.failure["time"]
        return self.rows[-1]["time"] if self.rows else self.run["created"]

    def params(self) -> dict[str, str]:
        """The signed configuration, flat; of the data set what tells it from others.

        How a phantom is drawn is in its hash and in run.json: MLflow prints all params over every
        picture.
        """
        dataset = self.run["signed"]["dataset"]
        plain = {key: value for key, value in dataset.items() if not isinstance(value, dict)}
        shown = self.run["signed"] | {"dataset": plain}
        return {_key(key): _value(value) for key, value in _flatten(shown, "")}

    def tags(self) -> dict[str, str]:
        """What a table needs to find the run."""
        commit = (self.result or {}).get("git_commit")
        tags = {key: self.run[key] for key in ("signature", "name", "row", "experiment")}
        tags |= labels(self.run["config"]) | {
            "status": self.status,
            "layout": layout.VERSION,
            "git_commit": commit,
            "mlflow.source.git.commit": commit,
            "mlflow.note.content": layout.note(self.run),
        }
        tags |= study_tags(self.folder)
        return {key: _value(value) for key, value in tags.items() if value is not None}

    def points(self) -> dict[tuple[str, int], Point]:
        """Every metric value; a step that was written twice counts once, as it was last."""
        points = [
            Point(
                _key(layout.metric_name(key)), row["step"], _number(value), int(row["time"] * 1000)
            )
            for row in self.rows
            for key, value in row.items()
            if key not in _NOT_METRICS and _is_number(value)
        ]
        if self.result:
            step, time = self.result["steps"], int(self.result["finished"] * 1000)
            points += [
                Point(_key(key), step, _number(value), time)
                for key, value in _flatten(layout.summary(self.result), "", joint="/")
                if _is_number(value)
            ]
        return {(point.key, point.step): point for point in points}

    def shows(self, images: str) -> bool:
        """Whether pictures, reports and names of images may leave the folder."""
        nobody = is_synthetic(self.run["config"])
        return images == "always" or (images == "phantom" and nobody)

    def files(self, images: str) -> dict[str, Path]:
        """Artifact path to file; overlays (with their reports) only where `images` allows."""
        files = {
            "run.json": self.folder / "run.json",
            "result.json": self.folder / "result.json",
            "config.yaml": self.folder / ".hydra" / "config.yaml",
        }
        if self.shows(images):
            overlays = self.folder / "overlays"
            for path in [overlays / "index.json", *sorted(overlays.glob("*.png"))]:
                files[f"overlays/{path.name}"] = path
        return {target: path for target, path in files.items() if path.is_file()}

    def texts(self, images: str) -> dict[str, str]:
        """Artifact path to text that is made for MLflow: the table of the test images."""
        try:
            per_image = (self.folder / "per_image.csv").read_text()
        except FileNotFoundError:
            return {}
        table = layout.image_table(per_image, names=self.shows(images))
        return {} if table is None else {layout.TABLE: table}

    def digest(self, images: str) -> str:
        """Short hash of all that MLflow gets of this folder."""
        files = self.files(images) | {"per_image.csv": self.folder / "per_image.csv"}
        content = {
            "params": self.params(),
            "tags": self.tags(),
            "points": [[p.key, p.step, repr(p.value), p.time] for p in self.points().values()],
            "files": {name: digest(path) for name, path in files.items() if path.is_file()},
            "names": self.shows(images),
        }
        return digest(json.dumps(content, sort_keys=True))

    def overlay_keys(self) -> dict[str, list[str]]:
        """Overlay file name to the names of its charts, the same in every run: worst_1, fixed_2."""
        index = _read_json(self.folder / "overlays" / "index.json") or []
        counts: dict[str, int] = {}
        keys = {}
        for entry in index:
            kind, fixed = entry["kind"], entry.get("fixed")
            counts[kind] = counts.get(kind, 0) + 1
            names = [] if kind == "fixed" else [f"view/{kind}_{counts[kind]}"]
            names += [f"view/fixed_{fixed}"] if fixed else []
            keys[Path(entry["file"]).name] = names
        return keys


def read_record(folder: Path, *, leaving: bool = False) -> Record:
    """Read the run folder; it may be written to meanwhile, and its trainer may be leaving it."""
    run = _read_json(folder / "run.json")
    if run is None:
        raise UserError(f"{folder} is no run folder: it has no run.json")
    result = _read_json(folder / "result.json")
    failure = _read_json(folder / "failure.json")
    if result and result["status"] == "done":
        status = "done"
    elif failure:  # removed when the next attempt starts
        status = "failed"
    else:
        status = "running" if not leaving and is_owned(folder) else "paused"
    return Record(folder, run, result, failure, _read_rows(folder / "metrics.jsonl"), status)


def digest(content: Path | str) -> str:
    """Short hash of a file's content, or of a text."""
    data = content.encode() if isinstance(content, str) else content.read_bytes()
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]


def _read_json(path: Path) -> dict | list | None:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None


def _read_rows(path: Path) -> list[dict]:
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()  # being written
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise UserError(f"{path} has a line that is not valid JSON: {error}") from None


def _flatten(node: dict, prefix: str, joint: str = ".") -> list[tuple[str, object]]:
    flat = []
    for key, value in node.items():
        path = f"{prefix}{joint}{key}" if prefix else str(key)
        if isinstance(value, dict):
            flat += _flatten(value, path, joint)
        elif value is not None:
            flat.append((path, value))
    return flat


def _key(key: str) -> str:
    """A name that MLflow accepts; two long names stay two names."""
    key = posixpath.normpath(re.sub(r"[^/\w. :-]", "_", key, flags=re.ASCII)).lstrip("./") or "_"
    if len(key) <= _KEY_LENGTH:
        return key
    tail = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{key[: _KEY_LENGTH - 9]}-{tail}"


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _VALUE_LENGTH else f"{text[: _VALUE_LENGTH - 3]}..."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: float) -> float:
    """MLflow's own spelling of infinity, so that a value read back is equal."""
    if math.isinf(value):
        return math.copysign(float.fromhex("0x1.fffffffffffffp+1023"), value)
    return float(value)
