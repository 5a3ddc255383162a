"""Patients or studies that are in two splits: a test image may be known from training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from semimedref.dataset.case import SPLITS, Case, Problem

_APART = "report it with every number on this data set, or put each {unit} into one split only"


@dataclass(frozen=True)
class Crossing:
    """Patients that two splits share."""

    first: str  # split
    second: str
    shared: tuple[str, ...]
    cases: tuple[Case, ...]  # of the second split that are of them
    images: int  # of the second split


def crossings(cases: Sequence[Case]) -> list[Crossing]:
    """Every pair of splits with patients in common."""
    parts = {name: [case for case in cases if case.split == name] for name in SPLITS}
    found = []
    for first, second in combinations(SPLITS, 2):
        known = {case.patient for case in parts[first]}
        again = tuple(case for case in parts[second] if case.patient in known)
        if again:
            shared = tuple(sorted({case.patient for case in again}))
            found.append(Crossing(first, second, shared, again, len(parts[second])))
    return found


def check_patients(cases: Sequence[Case], *, unit: str) -> list[Problem]:
    """Who crosses, and which images of the later split come from somebody known.

    A warning even in a partition that anybody could make better: MosMedData+'s published one is
    so, and a number on another partition could not be compared.
    """
    problems = []
    fix = _APART.format(unit=unit)
    for crossing in crossings(cases):
        a, b = crossing.first, crossing.second
        kind = f"{unit} is in {a} and {b}"
        problems += [Problem(kind, who, fix, "warning") for who in crossing.shared]
        kind = f"{b} image of a {unit} that {a} has too"
        problems += [Problem(kind, case.id, fix, "warning") for case in crossing.cases]
    return problems


def crossing_sentences(cases: Sequence[Case], *, unit: str) -> list[str]:
    """The same for a report, in one sentence for each pair of splits."""
    return [
        f"{_count(len(c.shared), unit)} in both {c.first} and {c.second}: {len(c.cases)} of "
        f"{c.images} {c.second} images come from a {unit} that {c.first} has too"
        for c in crossings(cases)
    ]


def _count(number: int, unit: str) -> str:
    many = {"study": "studies"}.get(unit, f"{unit}s")
    return f"1 {unit} is" if number == 1 else f"{number} {many} are"
