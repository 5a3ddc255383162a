"""The first lines of a verification: what was found, and whether it is what the paper used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from semimedref.dataset.case import SPLITS
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.partition import LabeledIds, Member, Partition
from semimedref.dataset.sample import ImageTextDataset

_NAME = 20  # the width of a fact's name
_VERDICTS = {
    True: "the published list",
    False: "NOT the published list",
    None: "no published list to compare with",
}


def headline(dataset: ImageTextDataset, partition: Partition) -> Iterator[str]:
    """Files, images and patients of each split, labeled images of each ratio."""
    unit, verdict = "patient", ""
    if isinstance(dataset, FileDataset):
        unit, verdict = dataset.unit, _verdict(dataset)
        yield fact(dataset.name, str(dataset.folder))
        yield fact("layout", dataset.found.layout)
        for file, digest in dataset.annotation_sha256().items():
            yield fact("annotation", f"{file}  sha256 {digest[:12]}")
    else:
        yield fact(dataset.name, "generated")
    yield fact("", "".join(f"{name:>9s}" for name in SPLITS))
    yield fact("images", _by_split(partition.members, len) + verdict)
    domains = list(dict.fromkeys(member.domain for member in partition.members))
    for domain in domains if len(domains) > 1 else ():
        own = [member for member in partition.members if member.domain == domain]
        yield fact(f"  {domain}", _by_split(own, len))
    plural = {"study": "studies"}.get(unit, f"{unit}s")
    yield fact(plural, _by_split(partition.members, lambda part: len({m.patient for m in part})))
    yield from map(labeled_fact, partition.labeled)


def fact(name: str, value: str) -> str:
    """One line."""
    return f"{name:{_NAME}s}{value}".rstrip()


def labeled_fact(labeled: LabeledIds) -> str:
    """How many images a ratio labels, and whether they are the published ones."""
    share = f"labeled at {100 * labeled.ratio:g} %"
    found = f"{len(labeled.ids):9d}   sha256 {labeled.sha256[:12]}, {_VERDICTS[labeled.published]}"
    return fact(share, found)


def _by_split(members: Sequence[Member], count: Callable[[list[Member]], int]) -> str:
    parts = [[member for member in members if member.split == name] for name in SPLITS]
    return "".join(f"{count(part):9d}" for part in parts)


def _verdict(dataset: FileDataset) -> str:
    if dataset.published is None:
        return ""
    numbers = " / ".join(f"{dataset.published.images[name]}" for name in SPLITS)
    return f"   the paper: {numbers}{', as here' if not dataset.partition_differences() else ''}"
