"""From rows of an annotation to cases: find the pictures, read positions, note what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from semimedref.dataset.case import Annotation, Case, Level, Problem
from semimedref.dataset.folders import Folders, Found, image_stem
from semimedref.text.position import parse

_COPY = "copy the file again from its source"
_ANNOTATION = "correct that row of the annotation, or take the published file"
_ELSEWHERE = "nothing to do: the annotation decides the split, and no other file has that name"
IMAGE_MISSING = "image is missing"
MASK_MISSING = "mask is missing"  # no error of a run in which that image is unlabeled


@dataclass(frozen=True)
class Entry:
    """One row of an annotation, in our words."""

    id: str
    split: str | None  # None: the name is not one of a split
    text: str
    file: str  # what the row calls the picture
    position: tuple[int, ...] | None = None  # a published label
    raw_split: str = ""


@dataclass
class CaseBuilder:
    """Collects cases and problems of one data set."""

    root: Path
    vocabulary: str | None
    patient: Callable[[str], str]
    parse_text: Callable[[str, str], list[int]] | None = None  # of a text and its split
    domain: str = ""
    _problems: list[Problem] = field(default_factory=list)

    def build(
        self, entries: Iterable[Entry], *, sources: Iterable[Path], layout: str
    ) -> Annotation:
        """Cases in the order of the entries; rows that cannot be used become problems."""
        folders = Folders(self.root)
        cases: dict[str, Case] = {}
        entries = tuple(entries)
        files = {entry.id: entry.file for entry in entries}
        names = Counter(map(image_stem, files.values()))
        for entry in entries:
            if not self._is_usable(entry):
                continue
            if entry.id in cases:
                self._second(cases[entry.id], entry)
            else:
                # Where two images have one name, each must lie where its split does.
                alone = names[image_stem(entry.file)] == 1
                cases[entry.id] = self._case(entry, folders, alone=alone)
        return Annotation(tuple(cases.values()), tuple(sources), tuple(self._problems), layout)

    def _case(self, entry: Entry, folders: Folders, *, alone: bool) -> Case:
        image = folders.image(entry.file, split=str(entry.split), anywhere=alone)
        mask = folders.mask(entry.file, split=str(entry.split), anywhere=alone)
        self._note_files(IMAGE_MISSING, entry, image)
        self._note_files(MASK_MISSING, entry, mask)
        return Case(
            id=entry.id,
            split=str(entry.split),
            patient=self.patient(entry.id),
            text=entry.text,
            image=image.path,
            mask=mask.path,
            position=entry.position or self._parsed(entry),
            domain=self.domain,
            mask_copies=mask.copies,
        )

    def _is_usable(self, entry: Entry) -> bool:
        if not entry.file:
            self._note_row("row names no image", repr(entry.text))
        elif leaves_root(entry.file):
            self._note_row("path leaves the root", entry.file)
        elif entry.split is None:
            case = f"{entry.id}: {entry.raw_split!r}"
            self._note_row("split name is unknown", case, "expected train, val(id) or test; ")
        elif not entry.text:
            self._note_row("text is empty", entry.id)
            return True
        else:
            return True
        return False

    def _note_row(self, kind: str, case: str, expected: str = "", level: Level = "error") -> None:
        problem = Problem(kind, case, expected + _ANNOTATION, level, "annotation")
        self._problems.append(problem)

    def _note_files(self, kind: str, entry: Entry, found: Found) -> None:
        if found.path is None:
            self._problems.append(Problem(kind, entry.id, _COPY))
        what = kind.partition(" ")[0]
        for rival in found.rivals:
            case = f"{entry.id}: {rival.relative_to(self.root)}"
            self._problems.append(two_files(what, case))
        if found.elsewhere:
            kind, case = f"{what} lies in another split's folder", f"{entry.id} ({found.elsewhere})"
            self._problems.append(Problem(kind, case, _ELSEWHERE, "note"))

    def _parsed(self, entry: Entry) -> tuple[int, ...]:
        if self.parse_text is not None:
            return tuple(self.parse_text(entry.text, str(entry.split)))
        return tuple(parse(entry.text, self.vocabulary))

    def _second(self, first: Case, second: Entry) -> None:
        if first.split != second.split:
            self._note_row("image is in two splits", first.id)
        elif first.text == second.text:
            agree = "they agree, the first one counts; "
            self._note_row("two rows for one image", first.id, agree, "warning")
        else:
            self._note_row("two rows for one image", first.id, "their texts differ; ")


def two_files(what: str, case: str) -> Problem:
    """The error for an image or a mask of which two files say different things."""
    kept = f"keep the published one of the two; {what}s are found by name in all folders"
    return Problem(f"two different files for one {what}", case, kept)


def leaves_root(file: str) -> bool:
    """Whether a path of an annotation points outside the folder of the data set."""
    path = PurePosixPath(file.replace("\\", "/"))
    if path.is_absolute() or re.match(r"[A-Za-z]:", file):
        return True
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def label(value: object, regions: int) -> tuple[int, ...] | None:
    """A published position label: a list, or its digits with or without brackets and commas."""
    text = "" if value is None else str(value)
    if text.isdigit():
        text = text.zfill(regions)  # Excel takes 001000 for a number
    parts = re.findall(r"""[^][()\s,;'"]+""", text)
    digits = list(parts[0]) if len(parts) == 1 else [part.removesuffix(".") for part in parts]
    fits = len(digits) == regions and all(digit in ("0", "1") for digit in digits)
    return tuple(map(int, digits)) if fits else None
