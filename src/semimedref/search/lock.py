"""One process at a time runs a study; the kernel lets go of the lock when it ends, however."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from semimedref.errors import UserError
from semimedref.files import NO_LOCKS
from semimedref.search.settings import Search

# Forked children (loader workers) close their copies, or the lock would outlive a killed search.
_HELD: set[int] = set()


@contextmanager
def held(search: Search) -> Iterator[None]:
    """Hold the study of a search."""
    try:
        search.folder.mkdir(parents=True, exist_ok=True)
        file = (search.folder / ".lock").open("a+")
    except OSError as error:
        raise UserError(
            f"cannot write in {search.folder} ({error.strerror}): set run_root=FOLDER"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UserError(
                f"{search.study} is being run already by {holder}: wait for it, or end it"
            ) from error
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        file.flush()
        _HELD.add(file.fileno())
        try:
            yield
        finally:
            _HELD.discard(file.fileno())
            with suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_UN)


def _drop_locks() -> None:
    for handle in _HELD:
        os.close(handle)


os.register_at_fork(after_in_child=_drop_locks)
