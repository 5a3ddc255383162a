"""Content hashes of source files, remembered by size and times of change.

Hashing 10,000 radiographs takes seconds, asking for their size and times milliseconds. So each
data set has one index in the cache folder: a file is read again only when one of them has changed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path

from semimedref.dataset.parallel import each
from semimedref.dataset.roots import cache_root
from semimedref.errors import UserError
from semimedref.files import write_atomic

log = logging.getLogger(__name__)


class ContentHashes:
    """The sha256 of files below a root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        name = hashlib.sha1(str(root).encode()).hexdigest()[:16]
        self._file = cache_root() / "hashes" / f"{name}.json"
        self._known: dict[str, list[object]] = _read(self._file)

    def of(self, paths: Iterable[Path], *, label: str) -> dict[Path, str]:
        """The hash of every file, read where it is not known yet."""
        stamps = {path: self._stamp(path) for path in dict.fromkeys(paths)}
        stale = [path for path, stamp in stamps.items() if self._remembered(path)[:-1] != stamp]
        for path, digest in zip(stale, each(file_sha256, stale, label=label), strict=True):
            self._known[self._key(path)] = [*stamps[path], digest]
        if stale:
            self._save()
        return {path: str(self._remembered(path)[-1]) for path in stamps}

    def _save(self) -> None:
        try:
            write_atomic(self._file, json.dumps(self._known, separators=(",", ":")))
        except UserError:  # the index only saves time
            log.debug("%s cannot be written: set SEMIMEDREF_CACHE=FOLDER", self._file)

    def _remembered(self, path: Path) -> list[object]:
        return self._known.get(self._key(path), [""])

    def _key(self, path: Path) -> str:
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)

    def _stamp(self, path: Path) -> list[object]:
        status = path.stat()
        # Copying tools restore the time of modification; that of the entry itself they cannot.
        return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def file_sha256(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_sha256(names: Iterable[str]) -> str:
    """The sha256 by which a published list of images is recognized, in any order and spelling."""
    return hashlib.sha256("\n".join(sorted(n.lower() for n in names)).encode()).hexdigest()


def _read(file: Path) -> dict[str, list[object]]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):  # absent or half-written by an older version: start anew
        return {}
    return content if isinstance(content, dict) else {}
