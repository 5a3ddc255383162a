"""Files that several processes share: written whole or not at all, locked by the living only."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from semimedref.errors import UserError


def write_atomic(path: Path, content: bytes | str) -> None:
    """Replace a file in one move, after its bytes are on the disk; folders are made."""
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
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
        fcntl.flock(handle, fcntl.LOCK_UN)
    return False
