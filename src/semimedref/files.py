"""Files that several processes share: written whole or not at all, locked by the living only."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from semimedref.errors import UserError

log = logging.getLogger(__name__)

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what a disk without file locks answers


def partial_of(path: Path) -> Path:
    """A name beside a path that no other process of any node writes to."""
    return path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.partial")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; others wait. On a disk without locks, nobody waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            _warn_once(path.parent)
            yield
            return
        try:
            yield
        finally:
            # Closing is not enough: a loader worker forked meanwhile has a copy of the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)


@lru_cache(maxsize=64)
def _warn_once(folder: Path) -> None:
    log.warning("%s: this disk has no file locks; work may be done twice", folder)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, moved into place at the end; another process may have been first."""
    partial = partial_of(folder)
    for left in folder.parent.glob(f".{folder.name}.{socket.gethostname()}.*.partial"):
        if not lives(int(left.name.split(".")[-2])) or left == partial:
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
    partial.mkdir(parents=True)
    try:
        yield partial
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def lives(pid: int) -> bool:
    """Whether there is such a process on this node."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace a file in one move, after its bytes are on the disk; folders are made."""
    data = content.encode() if isinstance(content, str) else content
    partial = partial_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if partial.parent.is_dir():
            partial.unlink(missing_ok=True)
        raise UserError(
            f"could not write {path} ({error.strerror}): what was there is unchanged; free space "
            "or set run_root=FOLDER, then the same command continues"
        ) from error


def is_locked(path: Path) -> bool:
    """Say whether a living process holds the lock; a lock file left by a dead one is free.

    The test takes a shared lock for an instant, so that two readers never see each other.
    """
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return False
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
    return False
