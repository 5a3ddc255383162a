"""Who is in which split, and which training images are labeled at the paper's ratios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from semimedref.dataset.case import SPLITS
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.hashes import list_sha256
from semimedref.dataset.sample import ImageTextDataset

RATIOS = (0.01, 0.02, 0.05, 0.15)  # the paper's, and the columns of a partition file


@dataclass(frozen=True)
class Member:
    """One image of a partition."""

    id: str
    split: str
    patient: str
    position: tuple[int, ...]
    domain: str = ""


@dataclass(frozen=True)
class LabeledIds:
    """The labeled images of one ratio."""

    ratio: float
    ids: frozenset[str]
    sha256: str
    published: bool | None  # None: there is no published list to compare with

    @property
    def name(self) -> str:
        """The ratio as the options call it."""
        return f"{100 * self.ratio:g}pct"


@dataclass(frozen=True)
class Partition:
    """All images, and the labeled ones of every ratio."""

    members: tuple[Member, ...]
    labeled: tuple[LabeledIds, ...]

    def split(self, name: str) -> tuple[Member, ...]:
        """The images of one split."""
        return tuple(member for member in self.members if member.split == name)


def partition_of(dataset: ImageTextDataset, *, split_seed: int) -> Partition:
    """The partition of any data set; of files on disk no picture is opened."""
    members = tuple(_members(dataset))
    train = [member.id for member in members if member.split == "train"]
    labeled = [_labeled(dataset, train, ratio, split_seed) for ratio in RATIOS] if train else []
    return Partition(members, tuple(labeled))


def _members(dataset: ImageTextDataset) -> Iterator[Member]:
    if isinstance(dataset, FileDataset):
        for c in dataset.found.cases:
            yield Member(c.id, c.split, c.patient, c.position, c.domain)
        return
    for name in SPLITS:
        part = dataset.split(name)
        positions = (tuple(map(int, row)) for row in part.positions)
        for own, who, where in zip(part.ids, part.patients, positions, strict=True):
            yield Member(own, name, who, where)


def _labeled(
    dataset: ImageTextDataset, train: list[str], ratio: float, split_seed: int
) -> LabeledIds:
    places, _ = dataset.labeled_places(fraction=ratio, split_seed=split_seed)
    ids = frozenset(train[place] for place in places)
    digest = list_sha256(ids)
    published = dataset.published if isinstance(dataset, FileDataset) else None
    known = published.sha256_at(ratio) if published else None
    return LabeledIds(ratio, ids, digest, None if known is None else known == digest)
