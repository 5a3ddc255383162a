"""Inside a run: stop at the end of an epoch when the search that started it says so.

The rule comes with ``study=NAME``, which a search sets and no signature holds: the same run without
it trains to its end. A run that was stopped keeps ``last.pt`` and continues from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.folder import STOPPED
from semimedref.search.point import read_note
from semimedref.search.stop import Limits, stops_at


class Stopped(Exception):  # noqa: N818 - not an error
    """A search has seen enough of this run; ``value`` is its best validation score so far."""

    def __init__(self, value: float, epoch: int) -> None:
        super().__init__(f"stopped after epoch {epoch}")
        self.value, self.epoch = value, epoch


@dataclass(frozen=True)
class Watch:
    """The rule of one study for one run; without a study nothing ever stops."""

    folder: Path
    study: str | None
    objective: str
    limits: Limits

    @classmethod
    def open(cls, folder: Path, plain: Mapping[str, Any]) -> Watch:
        """Read the rule, and forget that the run was stopped before."""
        study = plain["study"]
        (folder / STOPPED).unlink(missing_ok=True)
        if study is None:
            return cls(folder, None, "", {})
        found = read_note(folder, study)
        if found is None:
            raise UserError(
                f"study={study} is set by a search, which notes its rule in {folder}: leave it "
                "out, or give `semimedref train -m experiment=NAME` of that search"
            )
        return cls(folder, study, found["objective"], found["limits"])

    def after(self, notify: Callable[[], None]) -> Callable[[], None]:
        """What happens at the end of an epoch: others are told, then the rule is asked."""
        self.check()  # a run that fell under a limit before is not trained further

        def on_epoch() -> None:
            notify()
            self.check()

        return on_epoch

    def check(self) -> None:
        """Raise Stopped, after a note of it, if the curve has fallen under a limit."""
        if not self.limits:
            return
        from semimedref.search.objective import curve_of

        curve = curve_of(self.folder, self.objective)
        epoch = stops_at(curve, self.limits)
        if epoch is None:
            return
        best = max(curve[:epoch])
        about = {
            "study": self.study, "epoch": epoch, "objective": self.objective, "best": best,
            "limit": self.limits[epoch], "time": time.time(),
            "reason": f"{best:.4f} is under {self.limits[epoch]:.4f}, the median of earlier trials",
        }  # fmt: skip
        write_atomic(self.folder / STOPPED, json.dumps(about, indent=1) + "\n")
        raise Stopped(best, epoch)
