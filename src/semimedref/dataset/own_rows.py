"""From the rows of a user's own table to cases; what is wrong with a row is said of that row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semimedref.dataset.annotate import IMAGE_MISSING, MASK_MISSING, label, leaves_root
from semimedref.dataset.case import SPLITS, Case, Problem
from semimedref.dataset.checks.splits import empty_splits
from semimedref.dataset.folders import split_name
from semimedref.dataset.named_files import NamedFiles, tidy
from semimedref.dataset.rows import Row
from semimedref.text.position import parse
from semimedref.text.vocabulary import vocabulary as look_up

REQUIRED = ("image", "mask", "text", "split")
OPTIONAL = ("patient", "position", "id")

_ROW = "correct that row of the table"
_INSIDE = "write paths relative to the table's folder, or to dataset.root"


@dataclass
class OwnRows:
    """Collects the cases and problems of one table."""

    files: NamedFiles
    vocabulary: str | None
    has_ids: bool  # rows have names of their own: one image may have several sentences
    problems: list[Problem] = field(default_factory=list)

    def cases(self, rows: Iterable[Row]) -> tuple[Case, ...]:
        """One case for each row that can be used, in the order of the table."""
        cases: dict[str, Case] = {}
        for number, row in enumerate(rows, start=1):
            case = self._case({k: str(v).strip() for k, v in row.items()}, number)
            if case is None:
                continue
            if case.id.lower() in cases:
                self._second(cases[case.id.lower()], number)
            else:
                cases[case.id.lower()] = case
        found = tuple(cases.values())
        self.problems += [*_in_two_splits(found), *empty_splits(found)]
        return found

    def _case(self, row: dict[str, str], number: int) -> Case | None:
        image, mask = row.get("image", ""), row.get("mask", "")
        if not image:
            self._note("row names no image", f"row {number}", _ROW)
            return None
        name = row.get("id") or tidy(image)
        split = split_name(row.get("split", ""))
        if split is None:
            expected = f"expected one of {', '.join(SPLITS)}; {_ROW}"
            self._note("split name is unknown", f"{name}: {row.get('split', '')!r}", expected)
            return None
        outside = [path for path in (image, mask) if leaves_root(path)]
        if outside:
            self._note("path leaves the root", f"{name}: {outside[0]}", _INSIDE)
            return None
        text = row.get("text", "")
        if not text:
            self._note("text is empty", name, _ROW)
        return Case(
            id=name,
            split=split,
            patient=row.get("patient") or tidy(image).lower(),
            text=text,
            image=self._file(IMAGE_MISSING, image, name),
            mask=self._mask(mask, name, split),
            position=self._position(row.get("position", ""), text, name),
        )

    def _mask(self, mask: str, name: str, split: str) -> Path | None:
        if mask:
            return self._file(MASK_MISSING, mask, name)
        if split != "train":
            fix = "only rows of train may leave it out: scores need a mask; add it, or drop the row"
            self._note(f"{split} row names no mask", name, fix)
        return None

    def _file(self, kind: str, path: str, name: str) -> Path | None:
        found = self.files.find(path)
        if found.path is None:
            self.problems.append(Problem(kind, name, f"copy the file, or {_INSIDE}"))
        what = kind.partition(" ")[0]
        for rival in found.rivals:
            fix = "write the path in the letters of the right file"
            self.problems.append(
                Problem(f"two different files for one {what}", f"{name}: {rival.name}", fix)
            )
        return found.path

    def _position(self, given: str, text: str, name: str) -> tuple[int, ...]:
        regions = len(look_up(self.vocabulary).regions)
        if not given or not regions:
            return tuple(parse(text, self.vocabulary))
        marked = label(given, regions)
        if marked is None:
            fix = f"expected {regions} digits 0 or 1, one for each region; or leave it empty"
            self._note("position does not fit the vocabulary", f"{name}: {given}", fix)
            return (0,) * regions
        return marked

    def _second(self, first: Case, number: int) -> None:
        what = "id" if self.has_ids else "image"
        fix = "give every row another id" if self.has_ids else (
            "remove one; or, if an image has several sentences, add a column id with a name for "
            "each row"
        )  # fmt: skip
        self._note(f"two rows for one {what}", f"{first.id} (again in row {number})", fix)

    def _note(self, kind: str, case: str, fix: str) -> None:
        self.problems.append(Problem(kind, case, fix, about="annotation"))


def _in_two_splits(cases: Sequence[Case]) -> Iterator[Problem]:
    """Images with several sentences, of which some are in another split."""
    first: dict[object, Case] = {}
    for case in cases:
        other = first.setdefault(case.image, case) if case.image else case
        if other.split != case.split:
            found = f"{other.id} ({other.split}) = {case.id} ({case.split})"
            fix = "keep an image in one split only"
            yield Problem("image is in two splits", found, fix, about="annotation")
