"""Where do the marked pixels lie: on lesions that the sentence names, on others, or on background?

python docs/reading_errors.py RUN [RUN ...]       # finished runs, validation images
python docs/reading_errors.py burn_in s0 s1 s42   # the teacher when burn-in ends, trained anew
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from semimedref import checkpoint, metrics
from semimedref.config import compose
from semimedref.evaluate import predict_pool
from semimedref.run import Parts, finished_config

HEADS = ("Dice", "text gap", "on named", "on distractor", "background", "named missed")


def main(words: list[str]) -> None:
    """One row a run, in percent."""
    print(f"{'run':52s} " + "".join(f"{head:>14s}" for head in HEADS))
    if words[:1] == ["burn_in"]:
        for seed in words[1:]:
            _print(f"teacher after burn-in, {seed}", _after_burn_in(seed), "teacher", 0.55)
        return
    for run in map(Path, words):
        parts = Parts.build(finished_config(run))
        parts.method.load_weights(checkpoint.load(run / "best.pt")["weights"])
        _print(run.name, parts, "student", 0.5)


def _after_burn_in(seed: str) -> Parts:
    """Teacher-student as in the quickstart, stopped at its first unlabeled step."""
    parts = Parts.build(compose([f"seed={seed}", "tracking=off"]))
    trainer = parts.trainer(Path(tempfile.mkdtemp()), lambda: None)
    while parts.method.schedule.in_burn_in(trainer.progress):
        trainer._optimize(trainer.data[trainer.step])
    return parts


def _print(name: str, parts: Parts, weights: str, threshold: float) -> None:
    scores = [
        metrics.summarize(parts.counts("valid", weights=weights, texts=texts))["dice"]
        for texts in ("true", "shuffled")
    ]
    pool = parts.pool("valid")
    shown = np.load(parts.dataset.folder / "valid_lesions.npy") > 0
    named = np.asarray(pool.split.masks) > 0
    found = np.concatenate(
        [
            np.stack(predict_pool(parts.method, pool, list(part), parts.hardware, weights=weights))
            for part in np.array_split(np.arange(len(pool)), 10)
        ]
    )
    found = found >= threshold
    values = [
        scores[0],
        scores[0] - scores[1],
        (found & named).sum() / found.sum(),
        (found & shown & ~named).sum() / found.sum(),
        (found & ~shown).sum() / found.sum(),
        (named & ~found).sum() / named.sum(),
    ]
    print(f"{name:52s} " + "".join(f"{100 * v:14.1f}" for v in values))


if __name__ == "__main__":
    main(sys.argv[1:])
