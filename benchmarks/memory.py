"""Anonymous memory of a training loader over a long index, measured in processes of its own.

python -m benchmarks.memory IMAGES SIDE STEPS BATCH WORKERS
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


def loader_memory(
    *, images: int, side: int, steps: int, batch: int, workers: int
) -> dict[str, float]:
    """RssAnon in MiB of the process that owns a loader and of each of its workers."""
    numbers = map(str, (images, side, steps, batch, workers))
    command = [sys.executable, "-m", "benchmarks.memory", *numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _measure(images: int, side: int, steps: int, batch: int, workers: int) -> dict[str, float]:
    import numpy as np

    from semimedref.dataset.loaders import Pool, Stream, TrainingSteps
    from semimedref.dataset.sample import Split

    with TemporaryDirectory() as folder:
        maps = {
            name: np.lib.format.open_memmap(
                Path(folder) / f"{name}.npy", mode="w+", dtype=np.uint8, shape=(images, side, side)
            )  # a sparse file: it takes no space on the disk
            for name in ("images", "masks")
        }
        ids = tuple(f"sub-s{i:06d}_ses-e00001_run-1_bp-chest_vp-ap_dx.png" for i in range(images))
        texts = tuple(f"{name}: one infected area, lower left lung." for name in ids)
        positions = np.zeros((images, 6), np.uint8)
        split = Split(ids, ids, texts, positions, maps["images"], maps["masks"])
        pools = [Pool(split, tuple(range(k, images, 2)), side, k == 0) for k in range(2)]
        known, other = (
            Stream(pool, name, 0, batch, 40, "cycle")
            for pool, name in zip(pools, ("labeled", "unlabeled"), strict=True)
        )
        loader = TrainingSteps(known, other, accumulate=1).loader(
            0, steps, workers=workers, pin=False
        )
        peak: dict[str, float] = {}
        for _ in loader:
            for name, pid in _processes().items():
                peak[name] = max(peak.get(name, 0.0), _rss_anon(pid))
        return peak


def _processes() -> dict[str, int]:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return {"owner": os.getpid()} | {f"worker {k}": int(p) for k, p in enumerate(children)}


def _rss_anon(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
    return next((int(s.split()[1]) / 1024 for s in lines if s.startswith("RssAnon")), 0.0)


if __name__ == "__main__":
    print(json.dumps(_measure(*map(int, sys.argv[1:6]))))
