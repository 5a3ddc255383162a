"""Expanding an experiment into cells: from the cache on disk against composing every cell."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Comparison, cache_in, compare
from benchmarks.size import Size
from semimedref.sweep import Experiment, expand


def run(size: Size) -> list[Comparison]:
    """What ``status``, ``table`` and a second launch do first; imports are not counted."""
    return [_expansion(list(overrides), size) for overrides in size.sweeps]


def _expansion(overrides: list[str], size: Size) -> Comparison:
    with TemporaryDirectory() as root:
        empty = (Path(root) / f"empty{i}" for i in count())

        def ours() -> Experiment:
            with cache_in(Path(root) / "kept"):
                return expand(overrides)

        def obvious() -> Experiment:
            with cache_in(next(empty)):
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
