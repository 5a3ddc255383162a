"""Time two ways to the same result, in turn, in one process, by CPU time."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.size import Size

Way = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """Median seconds of one call of each way; ratio = obvious / ours, with its range."""

    benchmark: str
    case: str
    ours: str
    obvious: str
    ours_seconds: float
    obvious_seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float
    repeats: int
    note: str


def compare(
    benchmark: str,
    case: str,
    *,
    ours: tuple[str, Way],
    obvious: tuple[str, Way],
    size: Size,
    note: str = "",
    clock: Callable[[], float] = time.process_time,
) -> Comparison:
    """Compare two ways that a benchmark has run once, to check that they agree and to warm up."""
    times = _in_turn((ours[1], obvious[1]), size, clock)
    each = [slow / fast for fast, slow in zip(*times, strict=True)]
    fast, slow = (statistics.median(own) for own in times)
    return Comparison(
        benchmark=benchmark,
        case=case,
        ours=ours[0],
        obvious=obvious[0],
        ours_seconds=fast,
        obvious_seconds=slow,
        ratio=slow / fast,
        ratio_low=min(each),
        ratio_high=max(each),
        repeats=len(each),
        note=note,
    )


def seconds(way: Way, calls: int = 1, clock: Callable[[], float] = time.process_time) -> float:
    """Mean time of one call."""
    start = clock()
    for _ in range(calls):
        way()
    return (clock() - start) / calls


def _in_turn(
    ways: tuple[Way, Way], size: Size, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Repeat both ways in turn, so that a change of the machine's speed meets both."""
    single = [seconds(way, 1, clock) for way in ways]
    calls = [max(1, math.ceil(size.seconds / max(one, 1e-7))) for one in single]
    turn = sum(n * one for n, one in zip(calls, single, strict=True))
    repeats = max(size.least_repeats, min(size.repeats, int(size.budget / max(turn, 1e-7))))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for way, n, own in zip(ways, calls, times, strict=True):
            own.append(seconds(way, n, clock))
    return times


@contextmanager
def cache_in(folder: Path) -> Iterator[None]:
    """SEMIMEDREF_CACHE is this folder for a while."""
    before = os.environ.get("SEMIMEDREF_CACHE")
    os.environ["SEMIMEDREF_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SEMIMEDREF_CACHE"]
        else:
            os.environ["SEMIMEDREF_CACHE"] = before
