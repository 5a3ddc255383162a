"""How many images of each domain the paper has, against what a copy of PosMed gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semimedref.dataset.case import Case
from semimedref.dataset.posmed_modalities import MODALITIES, Modality
from semimedref.dataset.posmed_partition import PartitionRule

ALL = "all"  # the six modalities together


@dataclass(frozen=True)
class DomainCounts:
    """Published numbers of images of every domain, and of all six together under ``all``."""

    images: Mapping[str, Mapping[str, int]]  # domain: split: images
    labeled: Mapping[str, Mapping[str, int]]  # domain: ratio, such as 5pct: images
    split_seed: int  # of the labeled subsets

    def differences(
        self, cases: Sequence[Case], *, modalities: Sequence[Modality], rule: PartitionRule
    ) -> list[str]:
        """Every number that is another one, as ``brain_mri train: 12 images, published 1843``."""
        found = Counter(word for case in cases for word in _words(case, case.split))
        for ratio in {ratio for known in self.labeled.values() for ratio in known}:
            fraction = float(ratio.removesuffix("pct")) / 100
            groups = rule.labeled(cases, fraction=fraction, split_seed=self.split_seed)
            chosen = [c for c in cases if c.split == "train" and c.patient in groups]
            found.update(word for case in chosen for word in _words(case, _labeled(ratio)))
        names = [m.name for m in modalities]
        names += [ALL] if len(names) == len(MODALITIES) else []
        wanted: dict[tuple[str, str], int] = {}
        for name in names:
            wanted |= {(name, split): n for split, n in self.images.get(name, {}).items()}
            wanted |= {(name, _labeled(r)): n for r, n in self.labeled.get(name, {}).items()}
        return [
            f"{name} {what}: {found[name, what]} images, published {n}"
            for (name, what), n in wanted.items()
            if found[name, what] != n
        ]


def _labeled(ratio: str) -> str:
    return f"labeled at {ratio}"


def _words(case: Case, what: str) -> tuple[tuple[str, str], ...]:
    """Under which names a case is counted."""
    return (case.domain, what), (ALL, what)
