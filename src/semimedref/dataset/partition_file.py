"""``semimedref data prepare``: the partition as a small, sorted CSV, and where it came from.

Of QaTa-COV19 and MosMedData+ only the annotation is read, so a partition can be made, and compared
with the published one, from texts alone. PosMed's needs its pictures: equal ones are one group.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.dataset.annotate import IMAGE_MISSING, MASK_MISSING
from semimedref.dataset.case import SPLITS
from semimedref.dataset.checks.splits import empty_splits
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.headline import labeled_fact
from semimedref.dataset.partition import RATIOS, Partition, partition_of
from semimedref.dataset.problem_table import problem_rows
from semimedref.errors import UserError
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from semimedref.dataset.sample import ImageTextDataset

_SHOWN = 3  # cases of each problem: `data verify` lists them all
COLUMNS = ("id", "split", "patient", "position", *(f"labeled_{100 * r:g}pct" for r in RATIOS))


def prepare(dataset: ImageTextDataset, out: Path, *, split_seed: int) -> list[str]:
    """Write ``<out>/<dataset>.csv`` and ``.json``; returns what to tell about it, in lines."""
    if isinstance(dataset, FileDataset):
        dataset = dataset.complete()
        _refuse_errors(dataset)
    partition = partition_of(dataset, split_seed=split_seed)
    if not partition.split("train"):
        raise UserError(
            f"{dataset.name}: no training image was found, so there is nothing to label. Nothing "
            "was written; expected an annotation with rows of train"
        )
    table = partition_csv(partition)
    head = {"dataset": dataset.name, "file": f"{dataset.name}.csv", "sha256": _sha256(table)}
    head |= _source(dataset, split_seed) | _numbers(partition)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"out={out}: cannot make this folder ({error.strerror})") from error
    write_atomic(out / f"{dataset.name}.csv", table)
    header = json.dumps(head, indent=1, ensure_ascii=False) + "\n"
    write_atomic(out / f"{dataset.name}.json", header)
    written = f"{len(partition.members)} images: {out / dataset.name}.csv and .json"
    return [written, *map(labeled_fact, partition.labeled), *_notes(dataset)]


def partition_csv(partition: Partition) -> str:
    """One line for each image, by split and name; the same partition gives the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for member in sorted(partition.members, key=lambda m: (SPLITS.index(m.split), m.id)):
        train = member.split == "train"
        marks = [int(train and member.id in labeled.ids) for labeled in partition.labeled]
        position = "".join(map(str, member.position))
        writer.writerow([member.id, member.split, member.patient, position, *marks])
    return text.getvalue()


def _refuse_errors(dataset: FileDataset) -> None:
    errors = [problem for problem in dataset.found.errors if problem.about == "annotation"]
    if errors:
        first = errors[0]
        raise UserError(
            f"{dataset.name}: {len(errors)} errors in the annotation, the first: {first.kind} "
            f"({first.case}); {first.fix}. Nothing was written; `semimedref data verify "
            f"{dataset.options}` lists them"
        )


def _source(dataset: ImageTextDataset, split_seed: int) -> dict[str, object]:
    if not isinstance(dataset, FileDataset):
        return {"layout": "generated", "split_seed": split_seed}
    return {
        "layout": dataset.found.layout,
        "annotation_sha256": dataset.annotation_sha256(),
        "split_seed": split_seed,
        "rule": dataset.labeled_rule(split_seed=split_seed),
        **dataset.partition_facts(),
    }


def _numbers(partition: Partition) -> dict[str, object]:
    parts = {name: partition.split(name) for name in SPLITS}
    return {
        "images": {name: len(part) for name, part in parts.items()},
        "patients": {name: len({m.patient for m in part}) for name, part in parts.items()},
        "labeled": {
            labeled.name: {
                "images": len(labeled.ids),
                "sha256": labeled.sha256,
                "published": labeled.published,
            }
            for labeled in partition.labeled
        },
    }


def _notes(dataset: ImageTextDataset) -> list[str]:
    """What whoever uses the partition should know, one line each."""
    if not isinstance(dataset, FileDataset):
        return []
    notes = [f"note: {text}" for text in dataset.partition_differences() or []]
    cases = dataset.found.cases
    notes += [f"note: {p.kind}: {p.case}; {p.fix}" for p in empty_splits(cases)]
    for what in ("image", "mask"):
        missing = sum(getattr(case, what) is None for case in cases)
        if missing:
            found = f"{missing} of {len(cases)} {what}s are not here"
            notes.append(f"note: {found}, {dataset.without_pictures}")
    others = [p for p in dataset.found.problems if p.kind not in (IMAGE_MISSING, MASK_MISSING)]
    rows = problem_rows(others, shown=_SHOWN)
    return notes + [f"{level}: {kind} ({found})" for kind, level, found, _ in rows]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
