"""PosMed: four lesion domains (or all six groups) that one model learns together.

The text is the answer of a question-answer pair, the position label is read from it; the partition
is made here by the published rule (``posmed_partition.py``), from the tables, the bytes of the
pictures and the patients of the brain slices.

    semimedref data prepare dataset=posmed dataset.root=FOLDER out=FOLDER
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from semimedref.dataset.case import Annotation, Case, Problem
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.posmed_cases import picture_folders, read_cases
from semimedref.dataset.posmed_counts import DomainCounts
from semimedref.dataset.posmed_modalities import MODALITIES, Modality, chosen_modalities
from semimedref.dataset.posmed_partition import PartitionRule
from semimedref.dataset.posmed_patients import no_map, read_patients, split_by_folds
from semimedref.dataset.posmed_quality import (
    Hashes,
    empty_files,
    has_content,
    without_test_copies,
)
from semimedref.dataset.posmed_tables import Tables, read_tables
from semimedref.dataset.sample import Split
from semimedref.errors import UserError

Part = tuple[list[Case], list[Problem]]
ABSENT = "a group is absent"


@dataclass(kw_only=True, eq=False)
class PosMed(FileDataset):
    """Question-answer tables with pictures of six modalities.

    Attributes:
        domains: 4 (reported in the paper), 6 (all), or names of modalities.
        batch_size: images of a step, the same number from each domain; read by the trainer.
        max_tokens: length of the sentences; read by the text encoder.
        rule: how groups are split and labeled.
        domain_counts: the paper's numbers; None for any other part of the data.
        brain_patients: the file with patient and fold of every brain slice; None: searched.
    """

    unit: ClassVar[str] = "group"
    other_partition: ClassVar[str] = "dataset.domain_counts=null"
    without_pictures: ClassVar[str] = "so equal ones could not be found: the partition may differ"

    domains: int | Sequence[str]
    batch_size: int
    max_tokens: int
    rule: PartitionRule
    domain_counts: DomainCounts | None
    brain_patients: str | None

    def __post_init__(self) -> None:
        """Refuse unknown domains."""
        self.modalities = chosen_modalities(self.domains)

    def complete(self) -> Self:
        """The same data set with all six groups, as it is prepared and verified."""
        return replace(self, domains=len(MODALITIES))

    def split(self, name: str) -> Split:
        """The split, with the domain of each image."""
        domains = tuple(case.domain for case in self.found.split(name))
        return replace(super().split(name), domains=domains)

    def read(self, root: Path, annotation: Path | None) -> Annotation:
        """All cases of the chosen domains, split, with what is missing or left out."""
        tables = read_tables(root, annotation)
        present = [m for m in self.modalities if m.name in tables.rows]
        if not present:
            raise UserError(
                f"{self.name}: {annotation or root} has tables of {', '.join(tables.rows)} alone; "
                f"expected some of {', '.join(m.name for m in self.modalities)}"
            )
        homes = picture_folders(root)
        cases: list[Case] = []
        problems = list(tables.problems)
        for modality in self.modalities:
            if modality not in present:
                problems.append(_absent(modality))
                continue
            found, wrong = read_cases(
                modality,
                tables.rows[modality.name],
                homes=homes.get(modality.table.lower(), {}),
                vocabulary=self.vocabulary,
            )
            found, more = self._partition(modality, found, tables)
            cases += found
            problems += wrong + more
        if not cases:  # then there is no partition either
            problems = [replace(p, about="annotation") for p in problems]
        files = [tables.sources[m.name] for m in present] + [self._patients(tables)]
        sources = tuple(dict.fromkeys(file for file in files if file))
        layout = f"question-answer tables of {len(present)} groups"
        return Annotation(tuple(cases), sources, tuple(problems), layout)

    def labeled_places(self, *, fraction: float, split_seed: int) -> tuple[list[int], list[int]]:
        """Whole groups of each domain apart; 5 % are inside 15 %."""
        train = self.found.split("train")
        groups = self.rule.labeled(train, fraction=fraction, split_seed=split_seed)
        labeled = [i for i, case in enumerate(train) if case.patient in groups]
        unlabeled = [i for i, case in enumerate(train) if case.patient not in groups]
        return labeled, unlabeled

    def labeled_rule(self, *, split_seed: int) -> str:
        """Which training images carry a mask, in words."""
        rule = self.rule
        return (
            "in each domain m apart: whole groups (patient, study or case, joined where images are "
            "equal), their names sorted and shuffled by random.Random("
            f"{split_seed + rule.labeled_seed} + {rule.seed_step} m).shuffle of Python, until "
            f"round(n * ratio) images are reached or come closest; {100 * rule.first:g} % come "
            "first, larger ratios keep them"
        )

    def partition_differences(self) -> list[str] | None:
        """Numbers of the domains that are here and that are not the published ones."""
        if self.domain_counts is None:
            return None
        here = {case.domain for case in self.found.cases}
        return self._differences([m for m in self.modalities if m.name in here])

    def partition_facts(self) -> dict[str, object]:
        """Which groups the partition lacks, and in which of them not all images were compared."""
        cases = self.found.cases
        missing = [m.name for m in self.modalities if m.name not in {c.domain for c in cases}]
        unseen = Counter(
            c.domain for c in cases if not (has_content(c.image) and has_content(c.mask))
        )
        return {
            "complete": not (missing or unseen or self.found.errors),
            "missing_groups": missing,
            "images_not_compared": dict(unseen),  # for want of the image or of the mask
        }

    def warnings(self) -> tuple[str, ...]:
        """Also that the partition is none of the paper's, and what is missing of it."""
        absent = [p.case for p in self.found.problems if p.kind == ABSENT and p.level == "warning"]
        found = [f"without the domain {name}" for name in absent]
        if self.domain_counts is None:
            found.append(f"a partition of its own: {len(self.found.cases)} images")
        return (*super().warnings(), *found)

    def _partition(self, modality: Modality, cases: list[Case], tables: Tables) -> Part:
        """The published splits of one modality, without copies of test images and masks."""
        problems: list[Problem] = []
        if modality.split == "folds":
            path = self._patients(tables)
            if path is None:
                return [], [no_map(modality.name)]
            folds = self.rule.folds
            cases, problems = split_by_folds(cases, read_patients(path), folds=folds)
        problems += empty_files(cases)
        hashes = self._content(modality, cases)
        kept, copies = without_test_copies(cases, hashes)
        return self.rule.partition(modality, kept, hashes=hashes), problems + copies

    def _content(self, modality: Modality, cases: Sequence[Case]) -> Hashes:
        files = [file for c in cases for file in (c.image, c.mask) if has_content(file)]
        return self.hashes.of(files, label=f"hashing {modality.name}")

    def _patients(self, tables: Tables) -> Path | None:
        if not self.brain_patients:
            return tables.patients
        path = Path(self.brain_patients).expanduser()
        if not path.is_file():
            raise UserError(f"dataset.brain_patients={path}: there is no such file")
        return path

    def _differences(self, modalities: Sequence[Modality]) -> list[str]:
        if self.domain_counts is None:
            return []
        cases = self.found.cases
        return self.domain_counts.differences(cases, modalities=modalities, rule=self.rule)

    def _refuse_other_partition(self) -> None:
        differences = self._differences(self.modalities)
        if differences:
            raise UserError(
                f"{self.name}: {len(differences)} numbers are not the paper's, the first: "
                f"{differences[0]}. Run `semimedref data verify dataset={self.name}` to list them, "
                f"or train on your own part with {self.other_partition} "
                f"dataset.name=my_{self.name}"
            )


def _absent(modality: Modality) -> Problem:
    return Problem(
        ABSENT,
        modality.name,
        f"put {modality.table}.csv and its pictures below the root; the other groups are prepared",
        "warning" if modality.reported else "note",
    )
