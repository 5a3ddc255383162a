"""Count true and false pixels of a method on a pool, whatever the batch size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from semimedref import metrics
from semimedref import seed as seeds
from semimedref.augment.plan import Plan
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.hardware import Hardware
from semimedref.method.contract import Method


def prepare(method: Method, batch: Batch, hardware: Hardware, *, plan: Plan | None = None) -> Batch:
    """The batch on the device, with its sentences tokenized or looked up."""
    text = method.student.prepare_text(batch.sentences).to(hardware.device)
    ready = hardware.place(batch.to(hardware.device))
    plan = None if plan is None else plan.to(hardware.device)
    return replace(ready, text=text, plan=plan)


@torch.no_grad()
def count_pool(
    method: Method,
    pool: Pool,
    hardware: Hardware,
    *,
    threshold: float,
    weights: str = "student",
) -> np.ndarray:
    """Counts (N, 3) of every image of a pool, whatever the batch size."""
    method.train(False)
    table = []
    for batch in pool.batches(hardware.eval_batch_size):
        ready = prepare(method, batch, hardware)
        probability = method.predict(ready, weights=weights)
        table.append(metrics.counts(probability, ready.mask, threshold=threshold))
    return torch.cat(table).cpu().numpy()


def with_shuffled_texts(pool: Pool) -> Pool:
    """The pool with its sentences dealt out anew, by one fixed permutation of the split."""
    order = seeds.permutation(0, "shuffled_text", n=len(pool.split))
    texts = tuple(pool.split.texts[i] for i in order)
    return replace(pool, split=replace(pool.split, texts=texts))


@torch.no_grad()
def predict_pool(
    method: Method, pool: Pool, chosen: list[int], hardware: Hardware, *, weights: str = "student"
) -> list[np.ndarray]:
    """Foreground probability (H, W) of some images of a pool."""
    method.train(False)
    ready = prepare(method, pool.fetch(chosen), hardware)
    return list(method.predict(ready, weights=weights)[:, 0].cpu().numpy())
