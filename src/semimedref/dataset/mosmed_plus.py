"""MosMedData+ as LViT's folders with Excel files, as frames and masks with CSVs, or by lists."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semimedref.dataset.annotate import CaseBuilder, Entry
from semimedref.dataset.case import Annotation
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.folders import PICTURES, split_name
from semimedref.dataset.manifests import choose, find_tables, labeled_lists, missing
from semimedref.dataset.table_problems import first, table_problems
from semimedref.errors import UserError
from semimedref.text.position import parse, parse_slots_as_whole

_IMAGE = ("image",)
_TEXT = ("text", "description")
_BARE = ("none", "all_levels")


@dataclass(kw_only=True, eq=False)
class MosMedPlus(FileDataset):
    """2,729 CT slices with masks and one sentence each (LViT); slices of a study cross splits.

    Attributes:
        bare_side_label: what "left lung" without a level marks in training below 100 %: none, or
            all_levels of that side as in the authors' lists.
        fraction: the labeled share, on which that rule depends.
    """

    unit = "study"
    in_paper = True
    order = "sorted, capital letters first"

    bare_side_label: str
    fraction: float

    def __post_init__(self) -> None:
        """Refuse an unknown rule."""
        if self.bare_side_label not in _BARE:
            expected = " or ".join(_BARE)
            raise UserError(f"preset.bare_side_label={self.bare_side_label}: expected {expected}")

    def read(self, root: Path, annotation: Path | None) -> Annotation:
        """The cases of each split in the order of their names, capital letters first."""
        tables = find_tables(root, annotation, image=_IMAGE)
        chosen = choose(tables.fitting, text=_TEXT)
        if chosen is None:
            raise missing(self.name, tables, "{Train,Val,Test}_text.xlsx or CSVs (Image, text)")
        entries = [_entry(row, split) for row, split in chosen.rows]
        entries.sort(key=lambda entry: entry.id)
        builder = CaseBuilder(root, self.vocabulary, patient=study, parse_text=self._position)
        found = builder.build(entries, sources=chosen.sources, layout=chosen.layout)
        problems = table_problems(tables, chosen, image=_IMAGE, text=_TEXT)
        lists = labeled_lists(tables.fitting, name=_id, complement=True)
        return replace(found, problems=(*found.problems, *problems), lists=lists)

    def _position(self, text: str, split: str) -> list[int]:
        filled = self.bare_side_label == "all_levels" and self.fraction < 1
        if split == "train" and filled:
            return parse_slots_as_whole(text, self.vocabulary)
        return parse(text, self.vocabulary)


def study(name: str) -> str:
    """The scan that a slice is from; of the slices ``bjorke_…`` that is not known."""
    stem = Path(name).stem.lower()
    return stem if stem.startswith("bjorke") else re.sub(r"_\d+$", "", stem)


def _entry(row: dict[str, Any], split: str) -> Entry:
    return Entry(
        id=_id(row),
        split=split_name(split),
        text=first(row, _TEXT),
        file=first(row, _IMAGE),
        raw_split=split,
    )


def _id(row: dict[str, Any]) -> str:
    """The image's name as in the published lists, whose order its capital letters decide."""
    name = re.split(r"[\\/]", first(row, _IMAGE))[-1]
    return name if name.lower().endswith(PICTURES) else f"{name}.png"
