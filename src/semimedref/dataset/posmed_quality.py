"""PosMed's quality control: nothing outside the test set may equal anything inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from semimedref.dataset.case import Case, Problem

Hashes = Mapping[Path, str]  # sha256 of the files' bytes; empty files have none
_FIX = "nothing to do: it is left out, as in the published partition"


def without_test_copies(cases: Sequence[Case], hashes: Hashes) -> tuple[list[Case], list[Problem]]:
    """The cases without copies of test images, and then without copies of test masks."""
    problems: list[Problem] = []
    kept = list(cases)
    for kind, file in _FILES.items():
        kept, copies = _apart(kept, lambda case, file=file: hashes.get(file(case)))
        problems += [
            Problem(f"{kind} equals one of the test set", c.id, _FIX, "note") for c in copies
        ]
    return kept, problems


def has_content(file: Path | None) -> bool:
    """Whether there are bytes to compare; all empty files would be equal to each other."""
    return file is not None and file.stat().st_size > 0


def empty_files(cases: Sequence[Case]) -> Iterator[Problem]:
    """Pictures that are there and cannot be compared."""
    fix = "copy the file again from its source: without it equal ones are not found"
    for case in cases:
        for kind, file in _FILES.items():
            if file(case) is not None and not has_content(file(case)):
                yield Problem(f"{kind} cannot be compared, it is empty", case.id, fix, "warning")


_FILES: dict[str, Callable[[Case], Path | None]] = {
    "image": lambda case: case.image,
    "mask": lambda case: case.mask,
}


def _apart(
    cases: Sequence[Case], content: Callable[[Case], str | None]
) -> tuple[list[Case], list[Case]]:
    """Cases to keep, and those outside the test set whose content a test case has."""
    test = {content(case) for case in cases if case.split == "test"} - {None}
    copies = [c for c in cases if c.split != "test" and content(c) in test]
    gone = {case.id for case in copies}
    return [case for case in cases if case.id not in gone], copies
