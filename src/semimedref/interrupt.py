"""SIGTERM, SIGINT and SIGUSR2 set a flag; the training loop saves at the next step and leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


class Interrupted(SystemExit):
    """Training was asked to stop and has saved; the exit code is 128 + the signal's number."""


class Interrupts:
    """A flag that signals set while the context is open."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._frame: FrameType | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def leave(self, message: str) -> None:
        """Leave after saving; an earlier handler (submitit's requeue) gets its turn."""
        with suppress(OSError):  # who listened may be gone
            print(message, flush=True)
        number = self.received or signal.SIGTERM
        previous = self._previous.get(number)
        if _is_foreign(previous):
            for other, handler in self._previous.items():
                signal.signal(other, handler)
            previous(number, self._frame)
        raise Interrupted(128 + number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received != signal.SIGUSR2:  # the request to come back is not taken back
            self.received, self._frame = number, frame


def _is_foreign(handler: Callable | int | None) -> bool:
    return callable(handler) and handler is not signal.default_int_handler
