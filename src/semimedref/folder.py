"""The run folder: its lock, its log, its JSON files. It is the truth; MLflow mirrors it."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.owner import LOCK, Owner, owned

if TYPE_CHECKING:
    import numpy as np

STOPPED = "stopped.json"  # in the folder of a run that a search has ended early
STUDIES = "studies"  # in a run folder: a note for each search that it serves
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
    def locked(self) -> Iterator[Owner]:
        """Hold the run for this process; a process that died holds nothing."""
        try:
            with owned(self.path) as me:
                yield me
        except OSError as error:
            if error.filename is None or Path(str(error.filename)).name != LOCK:
                raise
            raise UserError(
                f"cannot write in {self.path} ({error.strerror}): set run_root=FOLDER"
            ) from error

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

    def step_seconds(self, *, after: int) -> float | None:
        """Of an optimizer step and its data: the median over the epochs after that one."""
        rows = (self.path / "metrics.jsonl").read_text().splitlines()
        times = [json.loads(row).get("step_seconds") for row in rows[after:]]
        known = [seconds for seconds in times if seconds is not None]
        return statistics.median(known) if known else None

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file atomically."""
        write_atomic(self.path / name, json.dumps(content, indent=1) + "\n")

    def write_failure(self, error: str, trace: str, *, lost: bool = False) -> None:
        """Remember why the attempt failed; not even a full disk may hide the first error.

        Args:
            error: what went wrong.
            trace: where.
            lost: whether the process was taken away, so that trying again is no surprise.
        """
        record = {"error": " ".join(error.split()), "traceback": trace, "time": time.time()}
        record |= {"lost": True} if lost else {}
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


def selected_score(result: Mapping[str, Any]) -> str:
    """The name of the score by which the best epoch was kept, e.g. ``dice``."""
    return next(key.removeprefix("val/") for key in result["best"] if key.startswith("val/"))


def objective(result: Mapping[str, Any]) -> float:
    """The validation score that chose the epoch of a finished run: all that a sweeper may see.

    A method that chooses its epochs on the test set, as RAR was released, has no such score: NaN,
    which Optuna counts as a failed trial.
    """
    if result.get("selected_on", "valid") != "valid":
        return math.nan
    return float(result["best"][f"val/{selected_score(result)}"])


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
