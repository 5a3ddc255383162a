"""A data set of files on the user's disk: an adapter reads the annotation, the rest is the same."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from semimedref.dataset.annotate import MASK_MISSING
from semimedref.dataset.cache import PixelCache, Transform
from semimedref.dataset.case import SPLITS, Annotation, Case, Problem
from semimedref.dataset.checks.mask_copies import differing_masks
from semimedref.dataset.checks.patients import crossing_sentences
from semimedref.dataset.checks.sizes import another_size
from semimedref.dataset.checks.splits import empty_splits
from semimedref.dataset.command_line import override
from semimedref.dataset.hashes import ContentHashes, file_sha256, list_sha256
from semimedref.dataset.published import Published
from semimedref.dataset.roots import data_root
from semimedref.dataset.sample import ImageTextDataset, Split
from semimedref.dataset.splits import labeled_subset
from semimedref.errors import UserError
from semimedref.text.spans import Writing
from semimedref.text.vocabulary import vocabulary as look_up


@dataclass(kw_only=True, eq=False)
class FileDataset(ImageTextDataset):
    """Images, masks and sentences in files; pixels are cached at the side that a run needs.

    Attributes:
        vocabulary: regions that the sentences name; None: they name none.
        writing: how they count; None where sentences do not count lesions.
        transform: what happens to pixels before they are cached.
        published: the published partition; None for another one.
        annotation: the annotation file; None: whichever is found below the root.
        root: the folder; None: from the environment or the user's file.
        unit: what a case's ``patient`` is: a patient or a study.
        in_paper: whether there is a published partition that a copy should be.
        order: of the cases, in words.
        several_texts: whether an image may have several sentences, each a case of its own.
        other_partition: the option that allows a partition of one's own.
        without_pictures: what it means for a partition that pictures are not here.
    """

    unit: ClassVar[str] = "patient"
    in_paper: ClassVar[bool] = False
    order: ClassVar[str] = "in the order of the annotation"
    several_texts: ClassVar[bool] = False
    other_partition: ClassVar[str] = "dataset.published=null"
    without_pictures: ClassVar[str] = "nor needed here"

    name: str
    vocabulary: str | None
    writing: Writing | None
    rounding: str
    transform: Transform
    published: Published | None
    annotation: str | None
    root: str | None

    synthetic = False

    @property
    def options(self) -> str:
        """What chooses this data set on the command line, to be copied."""
        kind = type(self).__module__.rpartition(".")[2]
        own = self.in_paper and self.published is None
        said = {"name": None if self.name == kind else self.name, "root": self.root,
                "annotation": self.annotation}  # fmt: skip
        named = [override(f"dataset.{key}", value) for key, value in said.items() if value]
        return " ".join([f"dataset={kind}", *([self.other_partition] if own else []), *named])

    @property
    def regions(self) -> tuple[str, ...]:
        """What a position label marks."""
        return look_up(self.vocabulary).regions

    @abstractmethod
    def read(self, root: Path, annotation: Path | None) -> Annotation:
        """All cases below a root; ``annotation`` is the file that the user named, if any."""

    def complete(self) -> Self:
        """The data set as it is prepared and verified, even if a run uses only parts of it."""
        return self

    @cached_property
    def place(self) -> Path:
        """The folder, or the annotation file, that the user named."""
        kind = type(self).__module__.rpartition(".")[2]
        return data_root(self.name, self.root, kind=kind)

    @cached_property
    def folder(self) -> Path:
        """The folder below which all files lie."""
        return self.place.parent if self.place.is_file() else self.place

    @cached_property
    def found(self) -> Annotation:
        """What the adapter found."""
        named = Path(self.annotation).expanduser() if self.annotation else None
        if named is None and self.place.is_file():
            named = self.place
        return self.read(self.folder, named)

    @cached_property
    def hashes(self) -> ContentHashes:
        """The content of the files, remembered between runs."""
        return ContentHashes(self.folder)

    def split(self, name: str) -> Split:
        """Images as a memory map; masks are decoded when they are looked at."""
        return self._splits(name)

    def labeled_places(self, *, fraction: float, split_seed: int) -> tuple[list[int], list[int]]:
        """The published rule on the training ids, without opening a picture."""
        ids = [case.id for case in self.found.split("train")]
        return labeled_subset(ids, fraction=fraction, split_seed=split_seed, rounding=self.rounding)

    def prepare(self, labeled: Sequence[int]) -> None:
        """Refuse a copy with errors or of another partition; decode what a run will need."""
        self._refuse_errors(labeled)
        self._refuse_other_partition()
        train = self.found.split("train")
        self._labeled = tuple(train[i].id for i in labeled)
        self.split("train").masks.require(labeled)
        for name in SPLITS[1:]:
            part = self.split(name)
            part.masks.require(range(len(part)))

    def labeled_rule(self, *, split_seed: int) -> str:
        """Which training images carry a mask, in words."""
        return (
            f"the names of the training images {self.order}, shuffled by "
            f"random.Random({split_seed}).shuffle of Python; the first {self.rounding}(n * ratio)"
        )

    def partition_differences(self) -> list[str] | None:
        """Numbers of images that are not the published ones; None: there is nothing published."""
        return None if self.published is None else self.published.differences(self.image_counts())

    def partition_facts(self) -> dict[str, object]:
        """What else the header of a partition says about it."""
        return {}

    def image_counts(self) -> dict[str, int]:
        """How many images each split has."""
        return {name: len(self.found.split(name)) for name in SPLITS}

    def warnings(self) -> tuple[str, ...]:
        """Crossing patients, another partition, another size: what is known without much work."""
        found = crossing_sentences(self.found.cases, unit=self.unit)
        if self.published is None and self.in_paper:
            found.append(f"a partition of its own: {_counts(self.image_counts())} images")
        found += [f"not the published partition: {text}" for text in self._other_numbers()]
        size = another_size(self.found, self.published)
        return (*found, *([size] if size else []))

    def facts(self) -> dict[str, object]:
        """Layout and hashes of what the result was made with."""
        annotation = self.found
        cases = annotation.cases
        return {
            "layout": annotation.layout,
            "annotation_sha256": self.annotation_sha256(),
            "images": self.image_counts(),
            "labeled": {"images": len(self._labeled), "sha256": list_sha256(self._labeled)},
            "partition_sha256": list_sha256(f"{c.split} {c.id}" for c in cases),
            "texts_sha256": list_sha256(f"{c.id} {c.text}" for c in cases),
            "cache": self._cache("train").folder.name,
            "warnings": list(self.warnings()),
        }

    def annotation_sha256(self) -> dict[str, str]:
        """The hash of every annotation file, by its name below the root."""
        return {_inside(p, self.folder): file_sha256(p) for p in self.found.sources}

    def _splits(self, name: str) -> Split:
        if name not in self._open:
            cases, cache = self.found.split(name), self._cache(name)
            self._open[name] = Split(
                ids=tuple(c.id for c in cases),
                patients=tuple(c.patient for c in cases),
                texts=tuple(c.text for c in cases),
                positions=_positions(cases, len(self.regions)),
                images=cache.images(),
                masks=cache.masks(),
            )
        return self._open[name]

    @cached_property
    def _open(self) -> dict[str, Split]:
        return {}

    @cached_property
    def _labeled(self) -> tuple[str, ...]:
        return ()  # until a run says which images are

    def _other_numbers(self) -> list[str]:
        """What tells this partition from the published one, as far as a run has asked."""
        differences = list(self.partition_differences() or [])
        known = self.published.sha256_of_size(len(self._labeled)) if self.published else None
        if known and known != list_sha256(self._labeled):
            differences.append(f"{len(self._labeled)} other images are labeled")
        return differences

    def _cache(self, name: str) -> PixelCache:
        return PixelCache(
            f"{self.name}-{name}",
            self.found.split(name),
            transform=self.transform,
            hashes=self.hashes,
        )

    def _refuse_errors(self, labeled: Sequence[int]) -> None:
        train = self.found.split("train")
        asked = {train[i].id for i in labeled}
        unlabeled = {case.id for case in train if case.id not in asked}

        def stops(problem: Problem) -> bool:
            return not (problem.kind == MASK_MISSING and problem.case in unlabeled)

        needed = (case for case in self.found.cases if case.id not in unlabeled)
        errors = [problem for problem in self.found.errors if stops(problem)]
        errors += [p for p in empty_splits(self.found.cases) if p not in errors]
        errors += differing_masks(needed)
        if errors:
            raise UserError(
                f"{self.name}: {len(errors)} errors in {self.folder}, the first: {errors[0].kind} "
                f"({errors[0].case}). Run `semimedref data verify {self.options}` to list them"
            )

    def _refuse_other_partition(self) -> None:
        if self.published is not None and self.partition_differences():
            raise UserError(
                f"{self.name}: found {_counts(self.image_counts())}, the paper uses "
                f"{_counts(self.published.images)}. Run `semimedref data verify "
                f"dataset={self.name}` to list the missing cases, or train on your own partition "
                f"with dataset.published=null dataset.name=my_{self.name}"
            )


def _positions(cases: Sequence[Case], regions: int) -> np.ndarray:
    return np.array([c.position for c in cases], dtype=np.uint8).reshape(len(cases), regions)


def _counts(images: dict[str, int]) -> str:
    return " / ".join(str(images[name]) for name in SPLITS)


def _inside(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
