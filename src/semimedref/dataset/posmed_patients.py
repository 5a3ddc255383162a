"""The patients of PosMed's brain slices, and the folds that the patients were dealt into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from semimedref.dataset.case import Case, Problem
from semimedref.dataset.posmed_cases import stem_of
from semimedref.dataset.rows import read_rows
from semimedref.errors import UserError

Folds = Mapping[str, Sequence[int]]  # by split


@dataclass(frozen=True)
class Slice:
    """Whose slice it is and which fold that patient is in."""

    patient: str
    fold: int


def read_patients(path: Path) -> dict[str, Slice]:
    """The table ``slice_id, pid, fold`` by slice."""
    try:
        return {
            _slice_id(str(row["slice_id"])): Slice(str(row["pid"]), int(row["fold"]))
            for row in read_rows(path)
        }
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no map of brain slices ({error}): expected the columns slice_id, pid and "
            "fold, with whole numbers as folds"
        ) from error


def split_by_folds(
    cases: Iterable[Case], patients: Mapping[str, Slice], *, folds: Folds
) -> tuple[list[Case], list[Problem]]:
    """The cases with their patient and the split of the patient's fold."""
    splits = {fold: split for split, members in folds.items() for fold in members}
    kept: list[Case] = []
    problems: list[Problem] = []
    for case in cases:
        found = patients.get(_slice_id(stem_of(case)))
        if found is None or found.fold not in splits:
            what = "slice is not in the patient map" if found is None else "fold is unknown"
            problems.append(Problem(what, case.id, f"take the published map: {MAP_HELP}"))
            continue
        kept.append(replace(case, patient=found.patient, split=splits[found.fold]))
    return kept, problems


MAP_HELP = "put brain_mri_slice_to_pid.csv below the root or set dataset.brain_patients=FILE"


def no_map(name: str) -> Problem:
    """What is said when there is no map at all."""
    return Problem(
        "patients of a group are unknown", name, f"without them it has no split: {MAP_HELP}"
    )


def _slice_id(text: str) -> str:
    """``10``, ``0010`` and ``10.mat`` are one slice."""
    stem = PurePosixPath(text.strip()).stem
    return str(int(stem)) if stem.isdecimal() else stem.lower()
