"""Expanding an experiment into cells: from the cache on disk against composing every cell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Comparison, compare
from benchmarks.size import Size
from semimedref.sweep import Experiment, expand


def run(size: Size) -> list[Comparison]:
    """What ``status``, ``table`` and a second launch do first; imports are not counted."""
    return [_expansion(list(overrides), size) for overrides in size.sweeps]


def _expansion(overrides: list[str], size: Size) -> Comparison:
    with TemporaryDirectory() as root:
        empty = (Path(root) / f"empty{i}" for i in count())

        def ours() -> Experiment:
            with _cache(Path(root) / "kept"):
                return expand(overrides)

        def obvious() -> Experiment:
            with _cache(next(empty)):
                return expand(overrides)

        ours()  # fills the cache
        cells = ours().cells
        if cells != obvious().cells:
            raise AssertionError(f"{overrides}: cached cells differ from composed ones")
        return compare(
            "expansion",
            f"{overrides[0].partition('=')[2]}, {len(cells)} cells",
            ours=("sweep.expand, cached", ours),
            obvious=("sweep.expand, empty cache", obvious),
            size=size,
        )


@contextmanager
def _cache(folder: Path) -> Iterator[None]:
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
