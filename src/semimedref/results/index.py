"""Remember what thousands of run folders hold, and the numbers that were computed from them.

The folders are the truth and this is a cache of the user: a file is read again as soon as its
size, times or inode change, a number is computed again as soon as the content of a file or the
code changes, and an index that is damaged, old or cannot be written only costs time. It is one
file that is replaced in one move, so that readers and writers on any file system need no lock; of
two commands that end at the same instant, one may have to look again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeVar, cast

from semimedref.dataset.roots import cache_root
from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.results import store
from semimedref.results.interning import Pool, hashes_of, intern, restore

log = logging.getLogger(__name__)

T = TypeVar("T")
Stamp = list[int]  # size, time of modification, time of change, inode

_FORMAT = 1
# A file that was written so shortly before it was read may be written again within one tick of its
# file system's clock, which no stamp would show.
_TICK_NS = 1_000_000_000


@dataclass(frozen=True)
class _File:
    """What is known of a file that had this stamp at that time."""

    stamp: Stamp
    seen: int
    sha256: str | None = None
    result: str | None = None  # as JSON: most are never asked for

    def holds(self, stamp: Stamp | None) -> bool:
        """Whether the file is still the one that was read."""
        return stamp == self.stamp and self.seen - max(self.stamp[1:3]) > _TICK_NS


@dataclass
class _Content:
    files: dict[str, _File] = field(default_factory=dict)
    numbers: dict[str, tuple[list[str], object]] = field(default_factory=dict)  # of files by hash
    pool: Pool = field(default_factory=dict)


class Index:
    """The index of a run root; ``with Index.open(run_root) as index`` keeps what was learned."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root, self._file = str(root.absolute()) + os.sep, file
        self._content = _read(file)
        self._code = _code()
        self._learned = False

    @classmethod
    def open(cls, run_root: Path) -> Self:
        """The index in the user's cache folder; an empty one if there is none yet."""
        name = hashlib.sha1(str(run_root.absolute()).encode()).hexdigest()[:16]
        return cls(run_root, cache_root() / "index" / f"{name}.json")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.save()

    def look(self, folder: Path) -> tuple[store.State, store.Result | None]:
        """The state of a run, and its result if it is done: what ``store`` would say.

        Parts of results that are equal are one object: they are to be read, not changed.
        """
        path = folder / "result.json"
        stamp = _stamp(path)
        if stamp is None:
            return store.unfinished_state(folder), None
        known = self._known(path, stamp)
        if known is not None and known.result is not None:
            return "done", cast(store.Result, restore(known.result, self._content.pool))
        result = store.load_result(folder)
        if result.get("status") != "done":
            return store.unfinished_state(folder), None
        if _stamp(path) == stamp:
            record = intern(cast(dict[str, object], result), self._content.pool)
            self._learn(path, stamp, result=record)
        return "done", result

    def remember(
        self,
        kind: str,
        files: Sequence[Path],
        compute: Callable[[], T],
        *,
        parameters: Sequence[object] = (),
    ) -> T:
        """A value computed from the contents of files, computed once.

        Args:
            kind: what it is; one kind is one computation.
            files: all files that it depends on, in their order.
            compute: returns lists, dictionaries, texts and numbers only, as JSON knows them.
            parameters: whatever else it depends on, such as replicates and seed.
        """
        hashes = [self._sha256(path) for path in files]
        described = json.dumps([kind, self._code, list(parameters), hashes])
        key = hashlib.sha256(described.encode()).hexdigest()[:24]
        found = self._content.numbers.get(key)
        if found is not None:
            return cast(T, found[1])
        value = cast(T, json.loads(json.dumps(compute())))
        # A file that was replaced meanwhile may have been read before or after: do not guess.
        if None not in hashes and [self._sha256(path) for path in files] == hashes:
            self._content.numbers[key] = ([str(h) for h in hashes], value)
            self._learned = True
        return value

    def save(self) -> None:
        """Write what was learned, beside what others have learned meanwhile."""
        if not self._learned:
            return
        newest = _read(self._file)
        for ours, theirs in (
            (self._content.files, newest.files),
            (self._content.numbers, newest.numbers),
            (self._content.pool, newest.pool),
        ):
            theirs.update(ours)  # type: ignore[arg-type]
        try:
            write_atomic(self._file, _written(_pruned(newest, self._root)))
        except UserError:  # the index only saves time
            log.debug("%s cannot be written: set SEMIMEDREF_CACHE=FOLDER", self._file)
        self._learned = False

    def _known(self, path: Path, stamp: Stamp) -> _File | None:
        found = self._content.files.get(self._key(path))
        return found if found is not None and found.holds(stamp) else None

    def _learn(
        self, path: Path, stamp: Stamp, *, sha256: str | None = None, result: str | None = None
    ) -> None:
        known = self._known(path, stamp) or _File(stamp, time.time_ns())
        self._content.files[self._key(path)] = replace(
            known, sha256=sha256 or known.sha256, result=result or known.result
        )
        self._learned = True

    def _sha256(self, path: Path) -> str | None:
        """The hash of a file's content, or None of one that is not there."""
        stamp = _stamp(path)
        if stamp is None:
            return None
        known = self._known(path, stamp)
        if known is not None and known.sha256 is not None:
            return known.sha256
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if _stamp(path) == stamp:
            self._learn(path, stamp, sha256=found)
        return found

    def _key(self, path: Path) -> str:
        """The path below the root; another one as it is."""
        return os.path.abspath(path).removeprefix(self._root)  # noqa: PTH100 - 5 times as fast


def _stamp(path: Path) -> Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - twice as fast
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _code() -> str:
    """What computes: every file beside this one, and the library whose random numbers are drawn."""
    from importlib.metadata import version

    digest = hashlib.sha256(version("numpy").encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read(file: Path) -> _Content:
    """The content of an index, to be added to."""
    found = _parsed(file, tuple(_stamp(file) or ()))
    return _Content(dict(found.files), dict(found.numbers), dict(found.pool))


@lru_cache(maxsize=1)  # one command opens its index several times
def _parsed(file: Path, stamp: tuple[int, ...]) -> _Content:
    """The content of an index; nothing of one that is damaged or of another format."""
    del stamp  # another one is another content
    try:
        checksum, _, text = file.read_bytes().partition(b"\n")
    except OSError:
        return _Content()
    if hashlib.sha256(text).hexdigest().encode() != checksum:
        return _Content()
    content = json.loads(text)
    if content["format"] != _FORMAT:
        return _Content()
    files = {key: _File(*entry) for key, entry in content["files"].items()}
    numbers = {key: (hashes, value) for key, (hashes, value) in content["numbers"].items()}
    return _Content(files, numbers, content["pool"])


def _written(content: _Content) -> bytes:
    entries = {
        key: [file.stamp, file.seen, file.sha256, file.result]
        for key, file in content.files.items()
    }
    whole = {
        "format": _FORMAT,
        "files": entries,
        "numbers": content.numbers,
        "pool": content.pool,
    }
    text = json.dumps(whole, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _pruned(content: _Content, root: str) -> _Content:
    """Without files that are gone, and what was known of them alone."""
    files = {key: file for key, file in content.files.items() if _exists(root, key)}
    hashes = {file.sha256 for file in files.values()}
    numbers = {key: found for key, found in content.numbers.items() if hashes.issuperset(found[0])}
    used = {part for file in files.values() if file.result for part in hashes_of(file.result)}
    return _Content(files, numbers, {key: content.pool[key] for key in used})


def _exists(root: str, key: str) -> bool:
    with suppress(OSError):
        os.stat(os.path.join(root, key))  # noqa: PTH116, PTH118 - twice as fast
        return True
    return False
