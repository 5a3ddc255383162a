"""What is wrong with annotation files as a whole: unreadable, empty, or at odds with each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from semimedref.dataset.case import SPLITS, Level, Problem
from semimedref.dataset.folders import image_stem
from semimedref.dataset.manifests import Chosen, Table, Tables, is_list, with_text


def table_problems(
    tables: Tables, chosen: Chosen, *, image: Sequence[str], text: Sequence[str]
) -> list[Problem]:
    """All of them.

    Args:
        tables: that were found.
        chosen: what is read of them.
        image: the columns that may name the image, the first counts.
        text: those that may hold the sentence.
    """
    return [
        *_unreadable(tables, chosen),
        *_without_images(tables, chosen, image[-1]),
        *_disagreeing(tables, chosen, image=image, text=text),
    ]


def _unreadable(tables: Tables, chosen: Chosen) -> Iterator[Problem]:
    """An error, unless what the file is called after was read from another one."""
    from_lists = any(table.labeled_list for table in chosen.tables["train"])
    for path, detail in tables.damaged.items():
        split = tables.called_after(path)
        needed = {split} if split else set(SPLITS)
        lost = bool(needed - chosen.splits) or (is_list(path) and from_lists)
        level: Level = "error" if lost else "warning"
        fix = "copy it again from its source" if lost else (
            "copy it again, or remove it: another one was read"
        )  # fmt: skip
        case = f"{tables.inside(path)} ({detail})"
        yield Problem("annotation file is unreadable", case, fix, level, "annotation")


def _without_images(tables: Tables, chosen: Chosen, column: str) -> Iterator[Problem]:
    """Tables that are called after a split and hold nothing of it."""
    for table in tables.others:
        split = tables.called_after(table.path)
        if split is None:
            continue
        level: Level = "note" if split in chosen.splits else "warning"
        kind = "table names no image" if table.rows else "table has no rows"
        fix = f"expected the columns of a table of sentences, such as {column}; or remove it"
        yield Problem(kind, tables.inside(table.path), fix, level, "annotation")


def _disagreeing(
    tables: Tables, chosen: Chosen, *, image: Sequence[str], text: Sequence[str]
) -> Iterator[Problem]:
    """Further tables of a split with other images or sentences than the one that counts."""

    def sentences(table: Table, split: str) -> dict[str, str]:
        rows = table.rows_of(split)
        return {image_stem(first(row, image)): first(row, text) for row in rows}

    plain = [table for table in with_text(tables.fitting, text) if not table.labeled_list]
    for split, (counts, *_) in ((s, t) for s, t in chosen.tables.items() if t):
        used = {} if counts.labeled_list else sentences(counts, split)
        for other in plain if used else ():
            found = sentences(other, split)
            if other is counts or not found or found == used:
                continue
            differ = sum(found[name] != used[name] for name in found.keys() & used.keys())
            case = (
                f"{tables.inside(other.path)} ({len(found)} images of {split}, {differ} other "
                f"sentences; {tables.inside(counts.path)} counts, {len(used)} images)"
            )
            fix = "keep the published one, or set dataset.annotation=FILE"
            yield Problem("two tables disagree", case, fix, "warning", "annotation")


def first(row: dict[str, object], names: Sequence[str]) -> str:
    """The first of some cells that is not empty."""
    return next((str(row[name]).strip() for name in names if row.get(name)), "")
