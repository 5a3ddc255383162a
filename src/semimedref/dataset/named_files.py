"""Files by the paths that an annotation gives them, in any spelling of their letters.

Only the folders that a path names are looked into: a table may lie in a folder with much else.
"""

from __future__ import annotations

import filecmp
import posixpath
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from semimedref.dataset.folders import Found


class NamedFiles:
    """Files below some folders, the first of which that has a path counts."""

    def __init__(self, *folders: Path) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._names: dict[Path, dict[str, list[str]]] = {}

    def find(self, name: str) -> Found:
        """The file of a relative path; exact letters count before others."""
        parts = tidy(name).split("/")
        for folder in self._folders:
            exact = folder.joinpath(*parts)
            if exact.is_file():
                return Found(exact)
            alike = sorted(path for path in self._alike(folder, parts) if path.is_file())
            if alike:
                first, *others = alike
                differ = (p for p in others if not filecmp.cmp(first, p, shallow=False))
                return Found(first, tuple(differ))
        return Found(None)

    def _alike(self, folder: Path, parts: Sequence[str]) -> list[Path]:
        found = [folder]
        for part in parts:
            found = [f / name for f in found for name in self._below(f).get(part.lower(), ())]
        return found

    def _below(self, folder: Path) -> dict[str, list[str]]:
        if folder not in self._names:
            names: dict[str, list[str]] = defaultdict(list)
            for entry in folder.iterdir() if folder.is_dir() else ():
                names[entry.name.lower()].append(entry.name)
            self._names[folder] = names
        return self._names[folder]


def tidy(name: str) -> str:
    """A path with slashes and without detours, as it is compared and shown."""
    return posixpath.normpath(name.strip().replace("\\", "/"))
