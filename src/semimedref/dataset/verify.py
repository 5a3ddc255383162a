"""``semimedref data verify``: is this copy complete, readable, consistent, and the published one?

Headline facts first, then a table of problems. Errors are what no run should start with; warnings
belong into every report; notes need nothing. Nothing in the data set is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from semimedref.dataset.case import Problem
from semimedref.dataset.checks.copies import check_copies
from semimedref.dataset.checks.mask_copies import differing_masks
from semimedref.dataset.checks.partition import check_partition, is_published
from semimedref.dataset.checks.patients import check_patients
from semimedref.dataset.checks.pictures import Look, look_at
from semimedref.dataset.checks.sizes import check_sizes, in_words
from semimedref.dataset.checks.splits import empty_splits
from semimedref.dataset.checks.texts import check_texts
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.headline import fact, headline
from semimedref.dataset.partition import Partition, partition_of
from semimedref.dataset.problem_table import problem_table, summary
from semimedref.text.vocabulary import vocabulary

if TYPE_CHECKING:
    from semimedref.dataset.sample import ImageTextDataset

_SIZES = 3  # that the headline names, the most common first


def verify(dataset: ImageTextDataset, *, split_seed: int, shown: int | None) -> int:
    """Print facts and problems; 1 if any of them is an error, else 0.

    Args:
        dataset: any data set; of a generated one there are only counts to tell.
        split_seed: of the labeled lists.
        shown: how many cases of each problem are listed; None: all.
    """
    if isinstance(dataset, FileDataset):
        dataset = dataset.complete()
    partition = partition_of(dataset, split_seed=split_seed)
    for line in headline(dataset, partition):
        print(line, flush=True)
    problems: list[Problem] = []
    if isinstance(dataset, FileDataset):
        looks = _looks(dataset)
        print(fact("pixels", _pixels(looks)))
        problems = list(_problems(dataset, partition, looks, split_seed=split_seed))
    print()
    if problems:
        print(problem_table(problems, shown=shown))
        print()
    print(summary(problems))
    return int(any(problem.level == "error" for problem in problems))


def _looks(dataset: FileDataset) -> list[Look]:
    return look_at(
        dataset.found.cases,
        mask_rule=dataset.transform.mask_rule,
        vocabulary=vocabulary(dataset.vocabulary),
        label=f"looking at {dataset.name}",
        options=dataset.options,
    )


def _problems(
    dataset: FileDataset, partition: Partition, looks: Sequence[Look], *, split_seed: int
) -> Iterator[Problem]:
    cases = dataset.found.cases
    yield from dataset.found.problems
    yield from (p for p in empty_splits(cases) if p not in dataset.found.problems)
    yield from differing_masks(cases)
    yield from check_partition(dataset, partition, split_seed=split_seed)
    for look in looks:
        yield from look.problems
    pairs = zip(cases, looks, strict=True)
    readable = {case: look.size for case, look in pairs if look.size}
    yield from check_sizes({c.id: size for c, size in readable.items()}, dataset.published)
    if dataset.regions:  # else no sentence can name one
        yield from check_texts(cases)
    yield from check_patients(cases, unit=dataset.unit)
    files = [case.image for case in readable if case.image]
    hashes = dataset.hashes.of(files, label=f"hashing {dataset.name}")
    same = is_published(dataset, partition)
    several = dataset.several_texts
    yield from check_copies(list(readable), hashes, published=same, several_texts=several)


def _pixels(looks: Sequence[Look]) -> str:
    sizes = Counter(in_words(look.size) for look in looks if look.size)
    shown = [f"{size} ({n} images)" for size, n in sizes.most_common(_SIZES)]
    return ", ".join([*shown, "…"] if len(sizes) > len(shown) else shown) or "no readable image"
