"""Is the learned similarity of images and sentences ordered by shared anatomy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from semimedref.align.affinity import jaccard
from semimedref.analysis.bootstrap import Floats, mean_interval
from semimedref.analysis.finding import Finding, percent
from semimedref.errors import UserError
from semimedref.results.figure import measured
from semimedref.results.figure.similarity import OVERLAPS, similarity

if TYPE_CHECKING:
    from semimedref.analysis.subject import Subject

_PERCENTILES = (5, 25, 50, 75, 95)
_BINS = 400  # of the cosine's range; a figure joins them to its own scale


@torch.no_grad()
def similarities(subject: Subject) -> Floats:
    """Cosine (N, N) of every image (rows) with every sentence (columns) in the common space."""
    align = getattr(subject.parts.method, "align", None)
    if align is None:
        raise UserError(
            f"{subject.folder} was trained without a contrastive term: expected a run with "
            "align=pacl or align=clip"
        )
    if "align" not in subject.saved:
        raise UserError(
            f"{subject.folder / 'best.pt'} holds no projections (an older version wrote it): move "
            "the folder away and run the same train command again"
        )
    network = subject.parts.method.student
    images, texts = [], []
    for _, batch in subject.batches("alignment"):
        ready = subject.ready(batch)
        features = network.encode_text(ready.text)
        image = network.normalized(ready.image)
        if align.image_feature == "pre_fusion":
            maps = network.image_features(image)
        else:
            maps = network.fused_features(image, features)
        images.append(F.normalize(align.embed_image(maps).double(), dim=1))
        texts.append(F.normalize(align.embed_text(features.pooled).double(), dim=1))
    return (torch.cat(images) @ torch.cat(texts).T).cpu().numpy()


def overlap_classes(affinity: Floats) -> dict[str, np.ndarray]:
    """Pairs that name the same regions, some of the same, or none of the same."""
    same, none = affinity == 1, affinity == 0
    return dict(zip(OVERLAPS, (same, ~same & ~none, none), strict=True))


def ordered_queries(similarity: Floats, classes: dict[str, np.ndarray]) -> Floats:
    """For each image 1 if mean similarity falls from same over partial to none, else 0.

    NaN where one of the three kinds of sentences does not occur.
    """
    with np.errstate(invalid="ignore"):
        same, partly, none = (
            (similarity * classes[k]).sum(1) / classes[k].sum(1) for k in OVERLAPS
        )
        missing = np.isnan(same + partly + none)
    return np.where(missing, np.nan, (same > partly) & (partly > none))


def summarize(similarity: Floats, q: np.ndarray, patients: Sequence[str]) -> dict[str, Any]:
    """Means by overlap, gaps, ordered queries and rank correlation of all pairs."""
    from scipy.stats import spearmanr

    affinity = _affinity(q)
    classes = overlap_classes(affinity)
    absent = [name for name, pairs in classes.items() if not pairs.any()]
    if absent:
        raise UserError(f"no pair of images has {absent[0]} positions: choose a larger split")
    means = {name: float(similarity[pairs].mean()) for name, pairs in classes.items()}
    ordered = ordered_queries(similarity, classes)
    known = np.flatnonzero(~np.isnan(ordered))
    if not len(known):
        raise UserError("no image has sentences of all three overlaps: choose a larger split")
    return {
        "images": len(similarity),
        "queries": len(known),
        "pairs": {name: int(pairs.sum()) for name, pairs in classes.items()},
        "means": means,
        "gap_same_partial": means["same"] - means["partial"],
        "gap_partial_none": means["partial"] - means["none"],
        "ordered_queries": float(ordered[known].mean()),
        "ordered_queries_ci": mean_interval(ordered[known], [patients[i] for i in known]),
        "spearman": float(spearmanr(similarity.ravel(), affinity.ravel()).statistic),
    }


@dataclass(frozen=True)
class Measured:
    """One run and its numbers."""

    subject: Subject
    numbers: dict[str, Any]


def measure(subject: Subject) -> Measured:
    """Similarity by positional overlap of one run."""
    found = similarities(subject)
    q = subject.pool.split.positions
    numbers = summarize(found, q, subject.patients)
    numbers["objective"] = type(subject.parts.method.align).__name__
    classes = overlap_classes(_affinity(q))
    numbers |= distributions({kind: found[pairs] for kind, pairs in classes.items()})
    return Measured(subject, numbers)


def distributions(values: dict[str, Floats]) -> dict[str, Any]:
    """Percentiles and a histogram of each kind of pairs, for figures of several runs."""
    edges = np.linspace(-1, 1, _BINS + 1)
    # Rounding may push the cosine of equal directions over 1.
    counts = {k: np.histogram(np.clip(v, -1, 1), edges)[0].tolist() for k, v in values.items()}
    return {
        "percentiles": {k: np.percentile(v, _PERCENTILES).tolist() for k, v in values.items()},
        "histogram": {"edges": [round(e, 6) for e in edges.tolist()], **counts},
    }


def analyze(subject: Subject) -> Finding:
    """The finding of one run."""
    return compare([measure(subject)])


def compare(found: Sequence[Measured]) -> Finding:
    """One finding for several runs, a line each."""
    head = ("run", "objective", "same − partial", "partial − none", "ordered queries, percent",
            "Spearman")  # fmt: skip
    lines = [head]
    for run in found:
        n = run.numbers
        ordered = percent(n["ordered_queries"], n["ordered_queries_ci"])
        gaps = (f"{n['gap_same_partial']:.3f}", f"{n['gap_partial_none']:.3f}")
        lines.append((run.subject.name, n["objective"], *gaps, ordered, f"{n['spearman']:.3f}"))
    first, numbers = found[0].subject, found[0].numbers
    pairs = ", ".join(f"{numbers['pairs'][k]:,} {k}" for k in OVERLAPS)
    everything = numbers if len(found) == 1 else {r.subject.folder.name: r.numbers for r in found}
    return Finding(
        title=f"Similarity by positional overlap, {first.split}, {numbers['images']} images",
        numbers=everything,
        lines=lines,
        notes=(
            f"pairs of image and sentence: {pairs}; {numbers['queries']} images have all three",
            "ordered: mean similarity falls from same over partial to none",
        ),
        figure=similarity(
            [measured.Measured(r.subject.name, r.numbers, r.subject.folder.name) for r in found]
        ),
    )


def _affinity(q: np.ndarray) -> Floats:
    return jaccard(torch.from_numpy(np.array(q))).double().numpy()
