"""Walk a folder of data: through links, but never twice into one place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_HIDDEN = (".", "__MACOSX")  # begin what systems leave behind, not what a data set holds


def walk(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every folder below a root with the sorted names of the folders and files in it.

    Whoever takes a name out of the list of folders keeps the walk out of it. Linked folders come
    last, so that a folder is met under its own name if it has one below the root.
    """
    entered: set[str] = set()
    home = os.path.realpath(root)
    waiting = [root]
    while waiting:
        start = waiting.pop(0)
        for folder, below, names in os.walk(start):
            place = os.path.realpath(folder)
            if place in entered or _holds(place, home):
                below.clear()
                continue
            entered.add(place)
            below[:] = _shown(below)
            yield Path(folder), below, _shown(names)
            waiting += [path for name in below if (path := Path(folder, name)).is_symlink()]


def _shown(names: list[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith(_HIDDEN))


def _holds(place: str, home: str) -> bool:
    """Whether a link leads to a folder above the root: what lies there is not of the data set."""
    return place != home and Path(home).is_relative_to(place)
