"""Pictures of a tested run as strips: good, usual and poor cases, and some that all runs show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from semimedref.run import Parts

_FIXED = 4  # images that every run on a data set shows, whatever it makes of them


def write_overlays(folder: Path, parts: Parts, table: np.ndarray) -> None:
    """``<id>.png`` for a few test images; ``index.json``: sentences, scores, positions, errors."""
    from semimedref.evaluate import predict_pool
    from semimedref.files import write_atomic
    from semimedref.metrics import dice
    from semimedref.results.figures import panel

    folder.mkdir(exist_ok=True)
    scores = np.array([dice(*row) for row in table.tolist()])
    pool = parts.pool("test")
    chosen = _choose(scores)
    threshold = parts.threshold
    probabilities = predict_pool(parts.method, pool, list(chosen), parts.hardware)
    places = pool.split.place_column(parts.dataset.regions).get("position")
    fixed = {at: number for number, at in enumerate(fixed_places(len(scores)), start=1)}
    index = []
    for (at, kind), probability in zip(chosen.items(), probabilities, strict=True):
        case, text = pool.split.ids[at], pool.split.texts[at]
        batch = pool.fetch([at])
        truth, marks = batch.mask[0, 0].numpy() > 0, probability >= threshold
        image = np.clip(np.round(batch.image[0, 0].numpy()), 0, 255).astype(np.uint8)
        # The report sets sentence and score in letters of its own.
        panel(image, "", truth, marks, folder / f"{case}.png", title=None)
        entry = {"id": case, "text": text, "dice": float(scores[at])}
        entry |= {"file": f"{case}.png", "kind": kind, "error": _error(table[at], truth, marks)}
        entry |= {"position": places[at]} if places else {}
        index.append(entry | ({"fixed": fixed[at]} if at in fixed else {}))
    write_atomic(folder / "index.json", json.dumps(index, indent=1))


def _error(counts: np.ndarray, truth: np.ndarray, marks: np.ndarray) -> str:
    from semimedref.error_kind import error_kind, on_wrong_side

    return error_kind(*counts.tolist()[:3], wrong_side=on_wrong_side(truth, marks))


def _choose(scores: np.ndarray) -> dict[int, str]:
    """Two of each kind by Dice, then the fixed ones, as far as there are images."""
    order = np.argsort(scores, kind="stable")
    number = len(order)
    middle = number // 2
    picks: dict[int, str] = {}
    for kind, at in (
        ("best", order[::-1][:2]),
        ("median", order[middle : middle + 2]),
        ("worst", order[:2]),
        ("quartile", order[[number // 4, 3 * number // 4]]),
        ("fixed", fixed_places(number)),
    ):
        for i in at:
            picks.setdefault(int(i), kind)
    return picks


def fixed_places(number: int) -> list[int]:
    """Places spread evenly over a test set, the same for every run on it."""
    shown = min(_FIXED, number)
    return [(2 * i + 1) * number // (2 * shown) for i in range(shown)]
