"""How many cores a process may use; launchers that run several cells at once share them out."""

from __future__ import annotations

import os

THREADS = "SEMIMEDREF_THREADS"  # set by launchers; hardware.threads=N goes before it


def own_cores() -> int:
    """The share that a launcher gave, else all cores of this process."""
    share = os.environ.get(THREADS, "")
    return int(share) if share.isdigit() and int(share) > 0 else len(os.sched_getaffinity(0))
