"""Score a method on a pool, whatever the batch size; with other sentences where that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from semimedref import seed as seeds
from semimedref.augment.plan import Plan
from semimedref.axis import Axis
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.hardware import Hardware
from semimedref.method.contract import Method
from semimedref.metrics import MACRO, counts, with_domains
from semimedref.text.removal import removed_of
from semimedref.text.spans import remove


def prepare(method: Method, batch: Batch, hardware: Hardware, *, plan: Plan | None = None) -> Batch:
    """The batch on the device, with its sentences tokenized or looked up."""
    text = method.prepare_text(batch.sentences)
    text = None if text is None else text.to(hardware.device)
    ready = hardware.place(batch.to(hardware.device))
    plan = None if plan is None else plan.to(hardware.device)
    return replace(ready, text=text, plan=plan)


@torch.no_grad()
def measure_pool(
    method: Method,
    pool: Pool,
    hardware: Hardware,
    *,
    threshold: float,
    weights: str = "student",
    route: str | None = None,
) -> np.ndarray:
    """What the scores are made of, a row for every image of a pool: counts (N, 3) for masks."""
    method.train(False)
    table = []
    for batch in pool.batches(hardware.eval_batch_size):
        ready = prepare(method, batch, hardware)
        table.append(method.measure(ready, threshold=threshold, weights=weights, route=route))
    return torch.cat(table).cpu().numpy()


@torch.no_grad()
def best_threshold(
    method: Method, pool: Pool, hardware: Hardware, *, thresholds: Sequence[float], score: str
) -> tuple[float, np.ndarray]:
    """The threshold of the mask that scores best on a pool, and the counts (N, 3) at it.

    Of equal ones, the nearest to one half.
    """
    method.train(False)
    tables: list[list[torch.Tensor]] = [[] for _ in thresholds]
    for batch in pool.batches(hardware.eval_batch_size):
        ready = prepare(method, batch, hardware)
        probability = method.predict(ready, weights="student")
        for table, threshold in zip(tables, thresholds, strict=True):
            table.append(counts(probability, ready.mask, threshold=threshold))
    whole = {
        threshold: torch.cat(table).cpu().numpy()
        for threshold, table in zip(thresholds, tables, strict=True)
    }
    reached = {t: scores_of(method, table, pool)[score] for t, table in whole.items()}
    chosen = max(whole, key=lambda t: (reached[t], -abs(t - 0.5)))
    return chosen, whole[chosen]


def scores_of(method: Method, table: np.ndarray, pool: Pool) -> dict[str, float]:
    """Scores of a pool from its rows; where it has several domains, of each of them too."""
    return with_domains(method.summarize, table, pool.domains)


def selecting(method: Method, pool: Pool) -> str:
    """The score by which the best epoch is kept: over several domains, the mean of theirs."""
    return method.selects + (MACRO if pool.domains else "")


def reading(pool: Pool, axis: Axis, *, key: str, vocabulary: str) -> tuple[Pool, float]:
    """The pool with the sentences of an axis, and the share of them that has no positions."""
    if axis.texts == "shuffled":
        pool = with_shuffled_texts(pool)
    if not axis.removal:
        return pool, 0.0
    return without_positions(pool, axis.removal, key=key, vocabulary=vocabulary)


def with_shuffled_texts(pool: Pool) -> Pool:
    """The pool with its sentences dealt out anew, by one fixed permutation of the split.

    Where there are several domains, each keeps its own sentences: another domain's would show that
    the model knows a polyp from a brain, not that it reads where the lesion is.
    """
    split = pool.split
    order = seeds.permutation(0, "shuffled_text", n=len(split))
    if any(split.domains):
        order = _within(split.domains, order)
    texts = tuple(split.texts[i] for i in order)
    return replace(pool, split=replace(split, texts=texts))


def _within(domains: Sequence[str], order: np.ndarray) -> np.ndarray:
    """The order of the whole, in which every image gets one of its own domain."""
    of_image = np.array(domains)
    dealt = np.empty_like(order)
    for name in set(domains):
        dealt[of_image == name] = order[of_image[order] == name]
    return dealt


def without_positions(pool: Pool, share: float, *, key: str, vocabulary: str) -> tuple[Pool, float]:
    """The pool with all positional phrases of some sentences removed, and how many really are.

    The labels q stay those of the complete sentences. Whether an image is among the ``share`` is
    decided by a hash of its id (or of its sentence), so a larger share contains a smaller one.
    """
    split = pool.split
    gone = removed_of(split.ids, split.texts, share, key=key)
    texts = tuple(
        remove(text, vocabulary) if removed else text
        for text, removed in zip(split.texts, gone, strict=True)
    )
    found = float(np.mean([gone[i] for i in pool.places]))
    return replace(pool, split=replace(split, texts=texts)), found


@torch.no_grad()
def predict_pool(
    method: Method, pool: Pool, chosen: list[int], hardware: Hardware, *, weights: str = "student"
) -> list[np.ndarray]:
    """Foreground probability (H, W) of some images of a pool."""
    if not method.segments:
        raise UserError(
            "this run predicts no masks: choose a run of another method; "
            "`semimedref evaluate run=…` scores what it predicts"
        )
    method.train(False)
    ready = prepare(method, pool.fetch(chosen), hardware)
    return list(method.predict(ready, weights=weights)[:, 0].cpu().numpy())
