"""The run folder: its lock, its log, its JSON files. It is the truth; MLflow mirrors it."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import math
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref.errors import UserError
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from typing import TextIO

    import numpy as np

# Lock handles of this process. Forked children (loader workers) close their copies, or a lock would
# outlive a killed trainer until its workers notice.
_HELD: set[int] = set()
_LOCK_TRIES, _LOCK_PAUSE = 5, 0.06  # ``status`` holds a shared lock for an instant
IMPORTED = "imported.json"  # in the folder of a run that was trained on another machine


@dataclass(frozen=True)
class RunFolder:
    """A folder named by the signature of what is trained in it."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """The folder, made if it is not there."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot create {path} ({error.strerror}): set run_root=FOLDER to a writable one"
            ) from error
        return cls(path)

    @property
    def name(self) -> str:
        """Readable name and signature."""
        return self.path.name

    def result(self) -> dict[str, Any] | None:
        """The result, if the run is done."""
        try:
            return json.loads((self.path / "result.json").read_text())
        except FileNotFoundError:
            return None
        except json.JSONDecodeError as error:
            raise UserError(
                f"{self.path / 'result.json'} is no valid JSON: move the folder away, then the "
                "same command trains the run again"
            ) from error

    def check_same(self, signed: dict[str, Any]) -> None:
        """Refuse a folder whose stored configuration is another one (a hash collision, an edit)."""
        stored = self.path / "run.json"
        if stored.exists() and json.loads(stored.read_text())["signed"] != signed:
            raise UserError(
                f"{self.path} holds a run with another configuration under the same signature: "
                "move that folder away"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; the kernel lets go when the process ends, however."""
        try:
            file = (self.path / ".lock").open("a+")
        except OSError as error:
            raise UserError(
                f"cannot write in {self.path} ({error.strerror}): set run_root=FOLDER"
            ) from error
        with file:
            try:
                _take(file)
            except OSError as error:
                file.seek(0)
                raise UserError(
                    f"{self.name} is being trained already by {_holder(file.read())}: "
                    f"{self.path / 'train.log'} shows its progress"
                ) from error
            _HELD.add(file.fileno())
            file.truncate(0)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}
            file.write(json.dumps(holder))
            file.flush()
            try:
                yield
            finally:
                _HELD.discard(file.fileno())
                fcntl.flock(file, fcntl.LOCK_UN)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Log lines of this package go to the terminal and to ``train.log``."""
        logger = logging.getLogger("semimedref")
        handlers = [logging.StreamHandler(sys.stdout), logging.FileHandler(self.path / "train.log")]
        handlers[0].setFormatter(logging.Formatter("%(message)s"))
        handlers[1].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        previous = logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False
        for handler in handlers:
            logger.addHandler(handler)
        try:
            yield
        finally:
            logger.setLevel(previous[0])
            logger.propagate = previous[1]
            for handler in handlers:
                logger.removeHandler(handler)
                if isinstance(handler, logging.FileHandler):
                    handler.close()

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file atomically."""
        write_atomic(self.path / name, json.dumps(content, indent=1) + "\n")

    def write_failure(self, error: str, trace: str) -> None:
        """Remember why the attempt failed; not even a full disk may hide the first error."""
        record = {"error": " ".join(error.split()), "traceback": trace, "time": time.time()}
        try:
            self.write_json("failure.json", record)
        except UserError as second:
            logging.getLogger(__name__).warning("%s", second)

    def clear_failure(self) -> None:
        """Forget an earlier failure."""
        (self.path / "failure.json").unlink(missing_ok=True)

    def write_per_image(
        self,
        columns: Mapping[str, Sequence[str]],
        table: np.ndarray,
        *,
        extra: Mapping[str, np.ndarray],
    ) -> None:
        """``per_image.csv``: what names each test image, its integer counts, its Dice, and more."""
        from semimedref.metrics import dice

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*columns, "tp", "fp", "fn", "dice", *extra])
        more = zip(*(map(_number, values.tolist()) for values in extra.values()), strict=True)
        for *names, row, others in zip(*columns.values(), table.tolist(), more, strict=True):
            writer.writerow([*names, *row, f"{dice(*row):.6f}", *others])
        write_atomic(self.path / "per_image.csv", text.getvalue())


def refuse_without_weights(folder: Path) -> None:
    """Say why an imported run has no weights, before anything is built in vain."""
    if (folder / IMPORTED).exists() and not (folder / "best.pt").exists():
        raise UserError(
            f"{folder} was imported without weights: use it on the machine that trained it, or "
            "there run `semimedref export run=… weights=true` and import that file here"
        )


def _number(value: float) -> str:
    """A number of a table: whole ones without a point, none where there is no value."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def _holder(text: str) -> str:
    try:
        found = json.loads(text)
        return f"process {found['pid']} on {found['host']}"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _drop_locks() -> None:
    for handle in _HELD:
        os.close(handle)


os.register_at_fork(after_in_child=_drop_locks)


def _take(file: TextIO) -> None:
    """Take the lock, with a few tries against readers that look at it for an instant."""
    for attempt in range(_LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if attempt == _LOCK_TRIES - 1:
                raise
            time.sleep(_LOCK_PAUSE)
