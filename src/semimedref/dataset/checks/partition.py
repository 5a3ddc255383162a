"""Is this the published partition: images of each split, labeled lists, lists of the authors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from semimedref.dataset.case import Problem
from semimedref.dataset.partition import Partition

if TYPE_CHECKING:
    from semimedref.dataset.file_dataset import FileDataset

_COMPLETE = "complete the copy; or train on your own partition:"
_ORDER = "take the published annotation file in its own order, and ratio.split_seed=42"


def check_partition(
    dataset: FileDataset, partition: Partition, *, split_seed: int
) -> Iterator[Problem]:
    """Counts against the paper, labeled lists against their hashes and against the authors'."""
    differences = dataset.partition_differences() or []
    for text in differences:
        kind = "number of images is not the published one"
        fix = f"{_COMPLETE} {dataset.other_partition} dataset.name=my_{dataset.name}"
        yield Problem(kind, text, fix, about="annotation")
    if not any(text.startswith("train") for text in differences):
        yield from _other_lists(partition)
    yield from _authors_lists(dataset, split_seed)


def is_published(dataset: FileDataset, partition: Partition) -> bool:
    """Whether all numbers and all labeled lists are the published ones."""
    lists = [labeled.published for labeled in partition.labeled]
    return dataset.partition_differences() == [] and False not in lists


def _other_lists(partition: Partition) -> Iterator[Problem]:
    for labeled in partition.labeled:
        if labeled.published is False:
            case = f"{labeled.name}: {len(labeled.ids)} images, sha256 {labeled.sha256[:12]}"
            kind = "labeled list is not the published one"
            yield Problem(kind, case, _ORDER, "warning", "annotation")


def _authors_lists(dataset: FileDataset, split_seed: int) -> Iterator[Problem]:
    """Images that a list of the authors has and the rule does not give, or the other way round."""
    train = [case.id for case in dataset.found.split("train")]
    fix = "the rule counts; take the published lists, or remove this one"
    for own in dataset.found.lists:
        labeled, rest = dataset.labeled_places(fraction=own.fraction, split_seed=split_seed)
        expected = {train[i] for i in (labeled if own.labeled else rest)}
        for name in sorted(own.ids ^ expected):
            where = "only in the list" if name in own.ids else "only by the rule"
            kind = f"{own.path.name} differs from the rule"
            yield Problem(kind, f"{name} ({where})", fix, "warning", "annotation")
