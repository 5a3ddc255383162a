"""What leaves a machine of a finished run: configuration, metrics and counts; never a picture."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from semimedref.errors import UserError
from semimedref.results import scrubbing, store
from semimedref.results.renumbering import Renumbering, Table

RUN, RESULT, METRICS, PER_IMAGE, WEIGHTS = (
    "run.json",
    "result.json",
    "metrics.jsonl",
    "per_image.csv",
    "best.pt",
)
CORE = (RUN, RESULT, METRICS, PER_IMAGE)  # what makes two runs the same
NUMBERS = ("eval", "analysis")  # folders of files that hold numbers only

_FURTHER = re.compile(r"per_image_\w+\.csv|(eval|analysis)/(?!\.)[\w.+=,-]+\.(json|csv)")


@dataclass
class Packed:
    """The files of one run as they go into an archive."""

    name: str
    signature: str
    files: dict[str, bytes] = field(default_factory=dict)
    weights: Path | None = None
    notes: list[str] = field(default_factory=list)  # what was left out, or stayed readable


def is_file_of_run(name: str) -> bool:
    """Whether an archive may hold a file of this name, below the folder of its run."""
    return name in (*CORE, WEIGHTS) or _FURTHER.fullmatch(name) is not None


def pack(folder: Path, *, weights: bool = False) -> Packed:
    """Read a finished run and take out of it what names patients or the machine.

    Packing what was packed changes nothing.
    """
    run, result = store.load_run(folder), store.load_result(folder)
    if result.get("status") != "done":
        raise UserError(
            f"{folder} is not finished, expected a run that is done (`semimedref status "
            "experiment=NAME` shows them)"
        )
    packed = Packed(str(run.get("name")), str(run.get("signature")))
    packed.files[RUN] = _json(scrubbing.scrubbed_run(run))
    packed.files[RESULT] = _json(scrubbing.scrubbed_result(dict(result), run))
    for key in scrubbing.signed_paths(run):
        packed.notes.append(f"{key} holds a path that decides the signature: it stays readable")
    packed.files[METRICS] = _metrics(folder)
    names = _pack_tables(folder, packed)
    for kind in NUMBERS:
        for path in sorted((folder / kind).glob("*.json")):
            _pack_numbers(path, f"{kind}/{path.name}", packed, names)
    for name in [name for name in packed.files if not is_file_of_run(name)]:
        del packed.files[name]
        packed.notes.append(f"{name} is left out: no command writes a file of that name")
    if weights and (folder / WEIGHTS).is_file():
        packed.weights = folder / WEIGHTS
    return packed


def _metrics(folder: Path) -> bytes:
    rows = store.load_metrics(folder)
    numbers = ({k: v for k, v in row.items() if not isinstance(v, str)} for row in rows)
    return "".join(json.dumps(row) + "\n" for row in numbers).encode()


def _pack_tables(folder: Path, packed: Packed) -> set[str]:
    """Renumber ``per_image.csv``, and other tables of the same images alike; returns old names."""
    if not (folder / PER_IMAGE).exists():  # a run that predicts positions and no masks
        return set()
    store.load_per_image(folder)  # refuses a broken one with the line that helps
    renumbering = Renumbering.of(_read(folder / PER_IMAGE))
    others = [p for kind in NUMBERS for p in (folder / kind).glob("*.csv")]
    for path in [folder / PER_IMAGE, *sorted([*folder.glob("per_image_*.csv"), *others])]:
        name = path.relative_to(folder).as_posix()
        try:
            table, gone = renumbering.apply(_read(path))
        except (KeyError, ValueError, IndexError, csv.Error):
            packed.notes.append(f"{name} is left out: it names images that are not of the test set")
            continue
        packed.notes += [f"{name}: the column {column} is left out" for column in gone]
        packed.files[name] = table.text().encode()
    return renumbering.images.keys() | renumbering.patients.keys()


def _pack_numbers(path: Path, name: str, packed: Packed, names: set[str]) -> None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        packed.notes.append(f"{name} is left out: it is no JSON")
        return
    numbers = scrubbing.numbers_of(content, but=names) if isinstance(content, dict) else None
    if not numbers:
        packed.notes.append(f"{name} is left out: it names images, or holds no numbers")
        return
    packed.files[name] = _json(numbers)


def _read(path: Path) -> Table:
    return Table.parse(path.read_bytes().decode("utf-8"))


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
