"""Run cells in processes of their own, each as soon as a place of this machine is free."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

from semimedref.folder import RunFolder
from semimedref.launch.cell import PARENT, CellOrder, command_of, write_order
from semimedref.launch.queue import is_stopped
from semimedref.launch.slots import Slot
from semimedref.results.store import load_result, main_score, state

FOLDER = ".local"  # in the run root: the orders of the processes
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK = 0.1  # seconds between two looks at the processes


@dataclass
class ProcessQueue:
    """Cells that wait, run and are done.

    Attributes:
        places: where cells may run.
        max_restarts: how often a cell is started again whose process was killed.
        stop: whether the first failure keeps the waiting cells from starting.
    """

    places: Sequence[Slot]
    max_restarts: int
    stop: bool
    _running: dict[int, tuple[CellOrder, subprocess.Popen[str]]] = field(default_factory=dict)
    _killed: Counter[str] = field(default_factory=Counter)
    _signal: int | None = None
    _told: set[str] = field(default_factory=set)

    def run(self, orders: Sequence[CellOrder]) -> None:
        """Run all; a failed or killed cell does not take the others with it."""
        waiting, total, ended = deque(orders), len(orders), 0
        previous = {n: signal.signal(n, self._note) for n in _SIGNALS}
        try:
            while waiting or self._running:
                if self._signal is None:
                    self._start(waiting)
                else:
                    self._pass_on_signal()
                for place in list(self._running):
                    if self._running[place][1].poll() is not None:
                        ended += self._end(place, waiting, f"{ended + 1} of {total}")
                if self._signal is not None and not self._running:
                    break
                time.sleep(_LOOK)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self._signal is not None:
            raise SystemExit(128 + self._signal)

    def _start(self, waiting: deque[CellOrder]) -> None:
        for number, slot in enumerate(self.places):
            if waiting and number not in self._running:
                order = waiting.popleft()
                print(f"[{slot.label}] {order.name}", flush=True)
                self._running[number] = order, _process(order, slot)

    def _end(self, place: int, waiting: deque[CellOrder], progress: str) -> int:
        """Say how a cell ended; returns 1 unless it will be started again."""
        order, process = self._running.pop(place)
        label, found = self.places[place].label, state(order.folder)
        if found == "done":
            score = main_score(load_result(order.folder)["test"])
            print(f"[{label}] {progress} done: {order.name}  test {100 * (score or 0):.2f}")
            return 1
        if self._signal is not None or is_stopped(order.folder):
            return 1
        if process.returncode < 0 and self._killed[order.name] < self.max_restarts:
            self._killed[order.name] += 1
            print(f"[{label}] {order.name} was killed: it is started again", flush=True)
            waiting.append(order)
            return 0
        if found == "running":
            print(f"[{label}] {progress}: another process trains {order.name}", flush=True)
            return 1
        if found != "failed":
            killed = process.returncode < 0 or process.returncode > 128
            reason = f"its process ended with exit code {process.returncode} and no result"
            RunFolder.create(order.folder).write_failure(reason, "", lost=killed)
        print(f"[{label}] {progress} failed: {order.name}", flush=True)
        if self.stop and waiting:
            print(f"on_error=stop: {len(waiting)} cells were not started", flush=True)
            waiting.clear()
        return 1

    def _note(self, number: int, frame: FrameType | None) -> None:
        """The first signal lets every cell save and leave, the second one kills them."""
        del frame
        if self._signal is not None:
            for _, process in self._running.values():
                process.kill()
            return
        self._signal = number
        print("waiting until the running cells have saved", flush=True)

    def _pass_on_signal(self) -> None:
        for order, process in self._running.values():
            if order.name not in self._told:
                self._told.add(order.name)
                process.send_signal(signal.SIGTERM)


def _process(order: CellOrder, slot: Slot) -> subprocess.Popen[str]:
    file = write_order(order, Path(order.run_root) / FOLDER / f"{order.name}.json")
    process = subprocess.Popen(
        command_of(file),
        env={**os.environ, **slot.environment, PARENT: str(os.getpid())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # a terminal's Ctrl-C comes through us, once
    )
    threading.Thread(target=_pass_on, args=(process.stdout, slot.label), daemon=True).start()
    return process


def _pass_on(stream: IO[str], label: str) -> None:
    for line in stream:
        print(f"[{label}] {line}", end="", flush=True)
