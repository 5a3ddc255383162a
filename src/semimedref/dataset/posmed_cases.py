"""From rows of PosMed's tables to cases: their pictures, patients, studies and official splits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from semimedref.dataset.annotate import IMAGE_MISSING, MASK_MISSING, CaseBuilder, Entry
from semimedref.dataset.case import Case, Problem
from semimedref.dataset.folders import split_name, split_of
from semimedref.dataset.posmed_modalities import Modality
from semimedref.dataset.posmed_tables import Row, is_picture_folder, path_parts
from semimedref.dataset.walk import walk

Found = tuple[list[Case], list[Problem]]
Homes = dict[str, Path]  # the folder of a group that has the folder of pictures of that name


def picture_folders(root: Path) -> dict[str, Homes]:
    """Where ``train_images``, ``train_masks`` and their like lie, by group, in small letters."""
    found: dict[str, Homes] = defaultdict(dict)
    for folder, below, _ in walk(root):
        for name in filter(is_picture_folder, below):
            found[folder.name.lower()].setdefault(name.lower(), folder)
        below[:] = [name for name in below if not is_picture_folder(name)]
    return found


def read_cases(
    modality: Modality, rows: Iterable[Row], *, homes: Mapping[str, Path], vocabulary: str
) -> Found:
    """Cases of one modality in the order of its table, with the table's own splits.

    A case's patient is its study or itself; whoever knows the patients replaces it.
    """
    by_folders: dict[tuple[Path, Path], list[Row]] = defaultdict(list)
    places: dict[str, int] = {}
    for row in rows:
        by_folders[_homes(row, homes, modality)].append(row)
        places.setdefault(_id(row, modality), len(places))
    cases: list[Case] = []
    problems: list[Problem] = []
    for folders, own in by_folders.items():
        built, wrong = _build(own, modality, folders=folders, vocabulary=vocabulary)
        official = {_id(r, modality): s for r in reversed(own) if (s := _split(r))}
        cases += [replace(c, split=official[c.id], patient=_group(c, modality)) for c in built]
        problems += wrong
    if not homes:
        problems = _no_pictures(modality, problems)
    return sorted(cases, key=lambda c: places[c.id]), problems


def stem_of(case: Case) -> str:
    """The name of a case's mask file without its suffix."""
    return PurePosixPath(path_parts(case.id)[-1]).stem


def _id(row: Row, modality: Modality) -> str:
    return f"{modality.name}:{row.path}"  # the name in the published lists, letter by letter


def _entry(row: Row, modality: Modality) -> Entry:
    """What a case is built from; its files lie in the folder that the path names."""
    official = _split(row)
    lies_in = _split_in_path(row) or official
    return Entry(
        id=_id(row, modality),
        split=lies_in if official else None,
        text=row.answer,
        file=row.path,
        raw_split=row.split,
    )


def _split(row: Row) -> str | None:
    return split_name(row.split) if row.split else _split_in_path(row)


def _split_in_path(row: Row) -> str | None:
    return next(filter(None, map(split_of, path_parts(row.path)[-2:-1])), None)


def _homes(row: Row, homes: Mapping[str, Path], modality: Modality) -> tuple[Path, Path]:
    """The group's folders with the row's mask and with its image.

    A download may come in parts, with the splits, or masks and images, in different ones.
    """
    folder = "".join(path_parts(row.path)[-2:-1]).lower()
    part = folder.rpartition("_")[0] if is_picture_folder(folder) else row.split.lower()
    masks, images = (
        homes.get(f"{part}_{kind}s") or homes.get(f"{part}_{kind}") for kind in ("mask", "image")
    )
    usual = masks or images or next(iter(homes.values()), Path(modality.table))
    return masks or usual, images or usual


def _build(
    rows: Iterable[Row], modality: Modality, *, folders: tuple[Path, Path], vocabulary: str
) -> Found:
    """Cases with the masks below the first folder and the images below the second."""
    entries = [_entry(row, modality) for row in rows]
    by_folder = {
        folder: CaseBuilder(folder, vocabulary, lambda _: "", domain=modality.name).build(
            entries, sources=(), layout=""
        )
        for folder in dict.fromkeys(folders)
    }
    masks, images = (by_folder[folder] for folder in folders)
    cases = [
        replace(one, image=other.image)
        for one, other in zip(masks.cases, images.cases, strict=True)
    ]
    problems = [p for p in masks.problems if not _is_about_image(p)]
    return cases, problems + [p for p in images.problems if _is_about_image(p)]


def _is_about_image(problem: Problem) -> bool:
    return problem.about == "files" and "image" in problem.kind.split()


def _group(case: Case, modality: Modality) -> str:
    stem = stem_of(case)
    return stem.rpartition("_")[0] or stem if modality.group == "study" else stem


def _no_pictures(modality: Modality, problems: Iterable[Problem]) -> list[Problem]:
    """One line instead of two for every image."""
    others = [p for p in problems if p.kind not in (IMAGE_MISSING, MASK_MISSING)]
    return [
        *others,
        Problem(
            "pictures of a group are missing",
            modality.name,
            f"put {modality.table}/train_images, train_masks and so on below the root; without "
            "them equal images are not found",
        ),
    ]
