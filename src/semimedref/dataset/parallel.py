"""Work on many files at once, with a progress bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

_QUIET = 200  # fewer files than this are done before a bar could be read
_AHEAD = 16  # results of each worker that may wait to be taken


def each(work: Callable[[In], Out], items: Sequence[In], *, label: str) -> Iterator[Out]:
    """The results of ``work`` in the order of the items.

    Threads serve all cores here: decoding, hashing and resizing leave Python's lock free.
    """
    if len(items) < 2:
        yield from map(work, items)
        return
    from tqdm import tqdm

    workers = len(os.sched_getaffinity(0))
    many, terminal = len(items) >= _QUIET, sys.stderr.isatty()
    if many and not terminal:  # a log gets one line instead of a bar
        print(f"{label}: {len(items)} files", file=sys.stderr, flush=True)
    with ThreadPoolExecutor(workers) as pool:
        shown = {"desc": label, "total": len(items), "disable": not (many and terminal)}
        results = _in_order(pool, work, items, ahead=_AHEAD * workers)
        yield from tqdm(results, **shown, file=sys.stderr, mininterval=1.0, leave=False)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[In], Out], items: Sequence[In], *, ahead: int
) -> Iterator[Out]:
    """Results one by one; only a few are made before they are asked for, however slow that is."""
    waiting: deque[Future[Out]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
