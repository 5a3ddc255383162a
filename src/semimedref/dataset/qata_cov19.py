"""QaTa-COV19 in every layout in which it circulates: SGSeg, LViT, the authors' lists, one CSV.

Pictures are found by name below the root; texts come from SGSeg's captions (which produced the
published numbers) or from LViT's original wording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semimedref.dataset.annotate import CaseBuilder, Entry, label
from semimedref.dataset.case import Annotation, Problem
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.folders import image_stem, split_name
from semimedref.dataset.manifests import (
    Tables,
    choose,
    damage,
    find_tables,
    labeled_lists,
    missing,
)
from semimedref.dataset.table_problems import first, table_problems
from semimedref.errors import UserError

_IMAGE = ("image_path", "image")
_LABEL = ("pseudo_label", "position")
_TEXT = {"sgseg": ("text_sgseg", "caption"), "lvit": ("text_lvit", "description", "text")}
_WHOSE = {"sgseg": "SGSeg's annotation.json", "lvit": "LViT's *_text.xlsx or CSV"}


@dataclass(kw_only=True, eq=False)
class QaTaCov19(FileDataset):
    """9,258 radiographs of COVID-19 with masks (Degerli et al.) and a sentence (LViT, SGSeg)."""

    in_paper = True

    text_source: str

    def __post_init__(self) -> None:
        """Refuse an unknown source of texts."""
        if self.text_source not in _TEXT:
            expected = " or ".join(_TEXT)
            raise UserError(f"dataset.text_source={self.text_source}: expected {expected}")

    @property
    def options(self) -> str:
        """What chooses this data set on the command line, to be copied."""
        return f"{super().options} dataset.text_source={self.text_source}"

    def read(self, root: Path, annotation: Path | None) -> Annotation:
        """The cases in the order of the published annotation, which is that of their names."""
        tables = find_tables(root, annotation, image=_IMAGE)
        text = _TEXT[self.text_source]
        chosen = choose(tables.fitting, text=text)
        if chosen is None:
            raise self._without_texts(tables)
        labels, unfit = _labels(tables, len(self.regions))
        entries = [_entry(row, split, text, labels) for row, split in chosen.rows]
        if not chosen.ordered:
            entries.sort(key=lambda entry: entry.id)
        builder = CaseBuilder(root, self.vocabulary, patient=patient)
        found = builder.build(entries, sources=chosen.sources, layout=chosen.layout)
        problems = [*unfit, *table_problems(tables, chosen, image=_IMAGE, text=text)]
        lists = labeled_lists(tables.fitting, name=_id, complement=False)
        return replace(found, problems=(*found.problems, *problems), lists=lists)

    def _without_texts(self, tables: Tables) -> UserError:
        other = {"sgseg": "lvit", "lvit": "sgseg"}[self.text_source]
        if choose(tables.fitting, text=_TEXT[other]):
            return UserError(
                f"{self.name}: {tables.place} has the texts of {other} only, not "
                f"{self.text_source}: add {_WHOSE[self.text_source]}, or set "
                f"dataset.text_source={other}{damage(tables)}"
            )
        return missing(self.name, tables, f"{_WHOSE['sgseg']}, {_WHOSE['lvit']}, or one CSV")


def patient(name: str) -> str:
    """Whom an image is of: ``sub-s09123_…`` of subject 9123; any other image is on its own."""
    found = re.match(r"sub-s\d+", name.lower())
    return found.group() if found else image_stem(name)


def _entry(row: dict[str, Any], split: str, text: Sequence[str], labels: dict[str, Any]) -> Entry:
    return Entry(
        id=_id(row),
        split=split_name(split),
        text=first(row, text),
        file=first(row, _IMAGE),
        position=labels.get(_id(row)),
        raw_split=split,
    )


def _id(row: dict[str, Any]) -> str:
    """The image's name as in SGSeg's lists, which lower-case it."""
    return f"{image_stem(first(row, _IMAGE))}.png"


def _labels(tables: Tables, regions: int) -> tuple[dict[str, tuple[int, ...]], list[Problem]]:
    """SGSeg's labels, from whichever table has them: they belong to images, not to wordings."""
    found = {}
    unfit: dict[str, object] = {}
    for table in tables.fitting:
        column = table.column(_LABEL)
        for row in table.rows if column else ():
            value = row.get(str(column), "")
            marked = label(value, regions)
            if marked is not None:
                found[_id(row)] = marked
            elif value != "":
                unfit[_id(row)] = value
    fix = f"the sentence is parsed instead; expected {regions} digits 0 or 1, one for each region"
    problems = [
        Problem("position label does not fit", f"{name}: {value}", fix, "warning", "annotation")
        for name, value in unfit.items()
        if name not in found
    ]
    return found, problems
