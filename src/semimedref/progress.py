"""A progress bar on a terminal; silence elsewhere, where the log has one line an epoch."""

from __future__ import annotations

import sys
from typing import Any


class EpochBar:
    """Steps of the current epoch."""

    def __init__(self, steps_per_epoch: int) -> None:
        self.steps_per_epoch = steps_per_epoch
        self._bar: Any = None

    def advance(self, step: int, epochs: int) -> None:
        """Show that ``step`` optimizer steps are done."""
        if not sys.stderr.isatty():
            return
        from tqdm import tqdm

        if self._bar is None:
            epoch = (step - 1) // self.steps_per_epoch + 1
            label = f"epoch {epoch}/{epochs}"
            self._bar = tqdm(total=self.steps_per_epoch, desc=label, leave=False)
        self._bar.update((step - 1) % self.steps_per_epoch + 1 - self._bar.n)
        if step % self.steps_per_epoch == 0:
            self._bar.close()
            self._bar = None
