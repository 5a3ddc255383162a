"""PosMed's partition: groups, splits and labeled subsets by the published rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from semimedref.dataset.case import SPLITS, Case
from semimedref.dataset.grouping import partition_ids
from semimedref.dataset.posmed_modalities import MODALITIES, Modality
from semimedref.dataset.posmed_patients import Folds
from semimedref.dataset.posmed_quality import Hashes
from semimedref.dataset.selection import select, select_nested, share
from semimedref.errors import UserError


@dataclass(frozen=True)
class PartitionRule:
    """The numbers of the partition; conf/dataset/posmed.yaml says what each is."""

    folds: Folds
    valid_fraction: float
    valid_seed: int
    labeled_seed: int
    seed_step: int
    first: float
    nested: Sequence[float]

    def __post_init__(self) -> None:
        """Refuse folds that name other splits than ours."""
        if set(self.folds) != set(SPLITS):
            raise UserError(f"dataset.rule.folds={dict(self.folds)}: expected {', '.join(SPLITS)}")

    def partition(self, modality: Modality, cases: Sequence[Case], *, hashes: Hashes) -> list[Case]:
        """Cases of one modality with the name of their group as patient, in their final split."""
        images = [hashes.get(case.image) for case in cases]
        ties = [
            [("group", case.patient), *([("image", content)] if content else [])]
            for case, content in zip(cases, images, strict=True)
        ]
        names = partition_ids(
            [case.id for case in cases], ties, prefix=f"{modality.name}_partition"
        )
        grouped = [replace(case, patient=name) for case, name in zip(cases, names, strict=True)]
        return self._draw_valid(modality, grouped) if modality.split == "drawn" else grouped

    def _draw_valid(self, modality: Modality, cases: Sequence[Case]) -> list[Case]:
        groups = _groups(cases, modality)
        target = share(groups, self.valid_fraction)
        seed = self.valid_seed + self.seed_step * modality.number
        drawn = select(groups, target, seed=seed) if groups else set()

        def final(case: Case) -> str:
            if case.split != "train":
                return "test"  # a published validation set joins the test set
            return "valid" if case.patient in drawn else "train"

        return [replace(case, split=final(case)) for case in cases]

    def labeled(self, cases: Iterable[Case], *, fraction: float, split_seed: int) -> set[str]:
        """The groups of the training cases that carry masks, drawn in each modality apart."""
        if not 0 < fraction <= 1:
            raise UserError(
                f"ratio.fraction={fraction} is impossible: expected 0 < fraction <= 1, "
                "e.g. `semimedref train ratio=15pct` or `ratio.fraction=0.15`"
            )
        train = [case for case in cases if case.split == "train"]
        if fraction == 1:
            return {case.patient for case in train}
        chosen: set[str] = set()
        for modality in MODALITIES:
            groups = _groups(train, modality)
            seed = split_seed + self.labeled_seed + self.seed_step * modality.number
            if groups:
                chosen |= select_nested(
                    groups, fraction, seed=seed, start=self.first, steps=self.nested
                )
        return chosen


def _groups(cases: Iterable[Case], modality: Modality) -> Mapping[str, int]:
    """Training images of each group of a modality."""
    return Counter(c.patient for c in cases if c.split == "train" and c.domain == modality.name)
