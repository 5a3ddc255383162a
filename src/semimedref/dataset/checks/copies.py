"""Images with the same bytes: a test image that was trained on measures memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from semimedref.dataset.case import SPLITS, Case, Problem


def check_copies(
    cases: Sequence[Case],
    hashes: Mapping[Path, str],
    *,
    published: bool,
    several_texts: bool = False,
) -> Iterator[Problem]:
    """Equal images in two splits, and one file that stands for two images.

    Args:
        cases: of all splits, with images that can be read.
        hashes: the content of the image files.
        published: whether the partition is the published one. Then a copy is a warning: whoever
            wants to compare with the paper must keep it. In any other partition it is an error:
            it can be put right, and no number would be worth anything before.
        several_texts: whether an image may have several sentences, each a case of its own.
    """
    same: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.image:
            same[hashes[case.image]].append(case)
    for group in same.values():
        if not several_texts:
            yield from _in_one_file(group)
        splits = [name for name in SPLITS if any(case.split == name for case in group)]
        if len(splits) > 1:
            firsts = [next(c for c in group if c.split == name) for name in splits]
            found = " = ".join(f"{case.id} ({case.split})" for case in firsts)
            kind = f"same image in {' and '.join(splits)}"
            fix = "keep it in one split only"
            if published:
                fix = "the published partition has it: report it with every number"
            yield Problem(kind, found, fix, "warning" if published else "error")


def _in_one_file(group: Sequence[Case]) -> Iterator[Problem]:
    files: dict[Path | None, Case] = {}
    for case in group:
        first = files.setdefault(case.image, case)
        if first is not case:
            fix = "correct the annotation, or copy the missing file"
            yield Problem("one file for two images", f"{first.id}, {case.id}", fix)
