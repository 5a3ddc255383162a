"""The final test of a run: the test set is opened once, after training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from semimedref import config, metrics
from semimedref.axis import Axis
from semimedref.evaluate import measure_pool, prepare, scores_of
from semimedref.mask_scores import COLUMNS, MaskScores

if TYPE_CHECKING:
    from semimedref.dataset.loaders import Pool
    from semimedref.folder import RunFolder
    from semimedref.run import Parts


def final_test(parts: Parts, folder: RunFolder) -> dict[str, Any]:
    """Scores of the test set, and what belongs to masks: per-image numbers, overlays, text gap."""
    method, pool = parts.method, parts.pool("test")
    if method.segments:
        scores = _test_masks(parts, folder, pool)
    else:
        threshold = parts.threshold
        table = measure_pool(method, pool, parts.hardware, threshold=threshold)
        scores = scores_of(method, table, pool)
    scores |= {"images": len(pool), "patients": len(set(pool.split.patients))}
    for axis in (Axis(**how) for how in method.axes):
        folder.write_json(f"eval/{axis.name('test')}.json", parts.evaluate("test", axis))
    return scores | method.facts(parts.cfg.scale.image_side)


def _test_masks(parts: Parts, folder: RunFolder, pool: Pool) -> dict[str, Any]:
    """Scores of masks; writes a line for every image, and pictures where they are allowed."""
    method, dataset = parts.method, parts.dataset
    of_masks: MaskScores = config.build(parts.cfg, "scores")
    table, shapes = measure_masks(parts, pool, of_masks)
    names = pool.split.columns | pool.split.place_column(dataset.regions)
    folder.write_per_image(names, table, extra=dict(zip(COLUMNS, shapes.T, strict=True)))
    if parts.may_show():
        parts.overlays(folder, table)
    scores: dict[str, Any] = scores_of(method, table, pool)
    shaped = metrics.with_domains(of_masks.summarize, shapes, pool.domains)
    scores |= {name: None if math.isnan(value) else value for name, value in shaped.items()}
    shuffled = method.summarize(parts.counts("test", texts="shuffled"))["dice"]
    return scores | {
        "nsd_tolerance": of_masks.tolerance,
        "dice_shuffled": shuffled,
        "text_gap": scores["dice"] - shuffled,
        "dice_text_blind_oracle": dataset.text_blind_oracle("test"),
    }


@torch.no_grad()
def measure_masks(parts: Parts, pool: Pool, of_masks: MaskScores) -> tuple[np.ndarray, np.ndarray]:
    """Counts (N, 3) and mask scores (N, 5) of every image, from one prediction of each."""
    method, threshold = parts.method.train(False), parts.threshold
    table, shapes = [], []
    for batch in pool.batches(parts.hardware.eval_batch_size):
        ready = prepare(method, batch, parts.hardware)
        probability = method.predict(ready, weights="student")
        table.append(metrics.counts(probability, ready.mask, threshold=threshold))
        predicted, true = probability >= threshold, ready.mask > 0.5
        shapes.append(of_masks.measure(predicted[:, 0].cpu().numpy(), true[:, 0].cpu().numpy()))
    return torch.cat(table).cpu().numpy(), np.concatenate(shapes)
