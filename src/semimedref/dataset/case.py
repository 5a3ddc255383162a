"""What an adapter reads from a data set on disk: cases, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SPLITS = ("train", "valid", "test")

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")  # the gravest first


@dataclass(frozen=True)
class Case:
    """One image with its sentence, as an annotation names it and as the disk holds it."""

    id: str  # the image's name in the published lists
    split: str  # train, valid or test
    patient: str  # the person or study; the unit of every resampling
    text: str
    image: Path | None  # None: there is no such file
    mask: Path | None
    position: tuple[int, ...]  # 0/1 by region of the vocabulary, published or parsed
    domain: str = ""  # of a data set that joins several, such as PosMed
    mask_copies: tuple[Path, ...] = ()  # other files of the mask's name, which nobody compared yet


@dataclass(frozen=True)
class Problem:
    """One thing that a user should know before a run; ``kind`` is a row of the table."""

    kind: str  # "mask is missing"
    case: str  # an id, a file, or a row of the annotation
    fix: str  # what to do about this kind
    level: Level = "error"
    about: Literal["annotation", "files"] = "files"  # a partition needs no file of pictures


@dataclass(frozen=True)
class LabeledList:
    """A list of the authors: which training images carry a mask at a ratio, or which do not."""

    path: Path
    fraction: float  # the labeled share, whichever of the two it lists
    labeled: bool
    ids: frozenset[str]


@dataclass(frozen=True)
class Annotation:
    """All cases of a data set in the order of the published lists."""

    cases: tuple[Case, ...]
    sources: tuple[Path, ...]  # the files that were read for it
    problems: tuple[Problem, ...]
    layout: str  # which of the circulating layouts it was, in words
    lists: tuple[LabeledList, ...] = ()  # that lie beside it, to be compared with the rule

    def split(self, name: str) -> tuple[Case, ...]:
        """The cases of one split."""
        return tuple(case for case in self.cases if case.split == name)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that no run may start with."""
        return tuple(p for p in self.problems if p.level == "error")
