"""Where do the wrong pixels lie: on lesions that the sentence does not name, or on background?

python docs/reading_errors.py RUN [RUN ...]
"""

import sys
from pathlib import Path

import numpy as np

from semimedref import checkpoint
from semimedref.evaluate import predict_pool
from semimedref.run import Parts, finished_config


def main(runs: list[str]) -> None:
    """Shares of predicted and of missed pixels on the validation images."""
    heads = ("on named", "on distractor", "background", "named missed")
    print(f"{'run':52s} " + "".join(f"{head:>14s}" for head in heads))
    for run in map(Path, runs):
        parts = Parts.build(finished_config(run))
        parts.method.load_weights(checkpoint.load(run / "best.pt")["weights"])
        pool = parts.pool("valid")
        shown = np.load(parts.dataset.folder / "valid_lesions.npy") > 0
        named = np.asarray(pool.split.masks) > 0
        found = np.concatenate(
            [
                np.stack(predict_pool(parts.method, pool, list(part), parts.hardware)) >= 0.5
                for part in np.array_split(np.arange(len(pool)), 10)
            ]
        )
        total = found.sum()
        shares = [
            (found & named).sum() / total,
            (found & shown & ~named).sum() / total,
            (found & ~shown).sum() / total,
            (named & ~found).sum() / named.sum(),
        ]
        print(f"{run.name:52s} " + "".join(f"{100 * s:12.1f} %" for s in shares))


if __name__ == "__main__":
    main(sys.argv[1:])
