"""Pictures of a tested run: its best, median and worst test images as captioned strips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from semimedref.run import Parts


def write_overlays(folder: Path, parts: Parts, table: np.ndarray) -> None:
    """``<id>.png`` for a few test images, and ``index.json`` with their sentences and scores."""
    from semimedref.evaluate import predict_pool
    from semimedref.files import write_atomic
    from semimedref.metrics import dice
    from semimedref.results.figures import panel

    folder.mkdir(exist_ok=True)
    scores = np.array([dice(*row) for row in table.tolist()])
    pool = parts.pool("test")
    chosen = _choose(scores)
    threshold = parts.cfg.trainer.threshold
    probabilities = predict_pool(parts.method, pool, list(chosen), parts.hardware)
    index = []
    for (at, kind), probability in zip(chosen.items(), probabilities, strict=True):
        case, text = pool.split.ids[at], pool.split.texts[at]
        batch = pool.fetch([at])
        panel(
            np.clip(np.round(batch.image[0, 0].numpy()), 0, 255).astype(np.uint8),
            "",  # the report sets sentence and score in letters of its own
            batch.mask[0, 0].numpy() > 0,
            probability >= threshold,
            folder / f"{case}.png",
            title=None,
        )
        entry = {"id": case, "text": text, "dice": float(scores[at])}
        index.append(entry | {"file": f"{case}.png", "kind": kind})
    write_atomic(folder / "index.json", json.dumps(index, indent=1))


def _choose(scores: np.ndarray) -> dict[int, str]:
    """Two of each kind, as far as there are images."""
    order = np.argsort(scores, kind="stable")
    middle = len(order) // 2
    picks: dict[int, str] = {}
    for kind, at in (
        ("best", order[::-1][:2]),
        ("median", order[middle : middle + 2]),
        ("worst", order[:2]),
    ):
        for i in at:
            picks.setdefault(int(i), kind)
    return picks
