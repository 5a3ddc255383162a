"""Who trains in a run folder: one process at a time, also on a disk that several nodes share.

A kernel lock ends with its process, however that ends. But some shared file systems keep it to one
node, so the owner signs, too, and touches its signature as long as it lives. An owner that is
silent is dead, and one that was thought dead finds another signature and writes no more.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from semimedref.errors import UserError
from semimedref.files import NO_LOCKS, is_locked, lives, write_atomic

log = logging.getLogger(__name__)

LOCK, SIGNATURE = ".lock", ".owner"  # in the run folder
BEAT = 20.0  # seconds between two touches
STALE = 180.0  # seconds of silence after which an owner on another node is dead
_TRIES, _PAUSE = 5, 0.06  # ``status`` holds a shared lock for an instant
# Lock handles of this process. Forked children (loader workers) close their copies, or a lock would
# outlive a killed trainer until its workers notice.
_HELD: set[int] = set()


class HeldError(UserError):
    """Another process has the folder."""


@dataclass(frozen=True)
class Owner:
    """A process that has a run folder."""

    token: str
    pid: int
    host: str
    job: str | None  # SLURM's number: a job never runs twice at the same time
    started: float

    @classmethod
    def here(cls) -> Owner:
        """This process."""
        job = os.environ.get("SLURM_JOB_ID")
        return cls(uuid.uuid4().hex, os.getpid(), socket.gethostname(), job, time.time())

    def __str__(self) -> str:
        job = f" (SLURM job {self.job})" if self.job else ""
        return f"process {self.pid} on {self.host}{job}"


@contextmanager
def owned(folder: Path) -> Iterator[Owner]:
    """Hold a run folder; refuses one that a living process holds, and waits for a silent one."""
    me = Owner.here()
    with (folder / LOCK).open("a+") as lock:
        shared = _lock(lock, folder)
        _succeed(folder, me, locked=shared)
        _HELD.add(lock.fileno())
        ended = threading.Event()
        beat = threading.Thread(target=_beat, args=(folder, me, ended), daemon=True)
        try:
            write_atomic(folder / SIGNATURE, json.dumps(asdict(me)))
            if not shared:
                time.sleep(2 * _PAUSE)
                check(folder, me)  # without a lock the last signature wins
            beat.start()
            yield me
        finally:
            ended.set()
            if beat.ident is not None:
                beat.join()
            if signature(folder) == me:
                (folder / SIGNATURE).unlink(missing_ok=True)
            _HELD.discard(lock.fileno())
            if shared:
                fcntl.flock(lock, fcntl.LOCK_UN)


def check(folder: Path, me: Owner) -> None:
    """Refuse to write where another process has taken over."""
    other = signature(folder)
    if other is not None and other != me:
        raise UserError(
            f"{folder.name} was taken over by {other}, because this process gave no sign for "
            f"{STALE:.0f} s: it stops here and writes nothing more"
        )


def signature(folder: Path) -> Owner | None:
    """Who has signed; None if nobody has, or if it cannot be read."""
    try:
        return Owner(**json.loads((folder / SIGNATURE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_owned(folder: Path) -> bool:
    """Whether a living process has the folder, as far as this node can know."""
    if is_locked(folder / LOCK):
        return True
    other = signature(folder)
    if other is None or other.host == socket.gethostname():
        return False
    with suppress(OSError):
        return time.time() - (folder / SIGNATURE).stat().st_mtime < STALE
    return False


def _lock(file: TextIO, folder: Path) -> bool:
    """Take the kernel's lock; False where the file system has none."""
    for attempt in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError as error:
            if attempt == _TRIES - 1:
                raise _busy(folder, signature(folder)) from error
            time.sleep(_PAUSE)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            log.warning("%s has no file locks: the owner's signature alone protects it", folder)
            return False
    raise AssertionError("every turn returns or raises")


def _succeed(folder: Path, me: Owner, *, locked: bool) -> None:
    """Return when an earlier owner is surely dead."""
    other, seen = signature(folder), _touched(folder)
    if other is None or seen is None:
        return
    here = other.host == me.host
    if here and (locked or not lives(other.pid)):
        return
    # A job that comes back elsewhere is over where it was. Here the other one lives: two cells of
    # one job that need the same run.
    if other.job is not None and other.job == me.job and not (here and other.pid != me.pid):
        return
    if _clock(folder) - seen < STALE:
        log.warning(
            "%s was held by %s: waiting up to %.0f s for a sign of life", folder.name, other, STALE
        )
    while _clock(folder) - seen < STALE:
        time.sleep(min(BEAT / 4, STALE / 20))
        now = _touched(folder)
        if now is None:
            return
        if now != seen:
            raise _busy(folder, signature(folder))


def _beat(folder: Path, me: Owner, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        with suppress(OSError):  # a disk that is away for a moment; the next touch is in time
            if signature(folder) == me:
                os.utime(folder / SIGNATURE)


def _touched(folder: Path) -> float | None:
    try:
        return (folder / SIGNATURE).stat().st_mtime
    except OSError:
        return None


def _clock(folder: Path) -> float:
    """The time by the clock of the disk: those of the nodes may differ."""
    probe = folder / f".clock.{os.getpid()}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _busy(folder: Path, other: Owner | None) -> HeldError:
    log_file = folder / "train.log"
    hint = f"{log_file} shows its progress" if log_file.exists() else "wait for it, or end it"
    return HeldError(
        f"{folder.name} is being worked on already by {other or 'another process'}: {hint}"
    )


def _drop_locks() -> None:
    for handle in _HELD:
        os.close(handle)


os.register_at_fork(after_in_child=_drop_locks)
