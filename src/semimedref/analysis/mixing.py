"""What the four patch-mixing strategies paste, measured on M, before the gate.

The teacher of a trained run gives P, the views of the four options plan and mix as in training,
over one pass of the unlabeled images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from semimedref import config
from semimedref.analysis.finding import Finding, percent
from semimedref.analysis.regions import coarse_region, region_masks
from semimedref.analysis.subject import progress
from semimedref.augment.t_patchmix import lesion_gate
from semimedref.dataset.loaders import Stream
from semimedref.errors import UserError
from semimedref.model.segmenter import TextInput
from semimedref.results.figure.mixing import mixing as draw_mixing
from semimedref.text.position import parse

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from torch import Tensor

    from semimedref.analysis.subject import Subject
    from semimedref.augment.t_patchmix import Mixed
    from semimedref.augment.views import Views
    from semimedref.dataset.sample import Batch

STRATEGIES = {
    "Random PatchMix": "random_patchmix",
    "T-PatchMix-pos": "t_patchmix_pos",
    "T-PatchMix-prob": "t_patchmix_prob",
    "T-PatchMix-hybrid": "t_patchmix_hybrid",
}


@dataclass(frozen=True)
class Patches:
    """What happened to B samples, one value each."""

    tried: np.ndarray  # bool: M is not empty
    score: np.ndarray  # r, the mean of P_j inside M
    overlap: np.ndarray  # share of M inside the coarse region of T_j, the boxes of its phrases
    named: np.ndarray  # share of M inside the regions that T_j names
    pasted: np.ndarray  # bool: the gate let it pass
    ambiguous: np.ndarray  # bool: an added region of a pasted one holds an unnamed lesion


def analyze(subject: Subject) -> Finding:
    """Lesion score, position overlap and gate of the four strategies."""
    method = subject.parts.method
    if not hasattr(method, "teach"):
        raise UserError(
            f"{subject.folder} was trained without a teacher: expected a run with "
            "method=teacher_student"
        )
    views = {name: build_views(subject.parts.cfg, option) for name, option in STRATEGIES.items()}
    stream = _stream(subject, draws=max(v.draws for v in views.values()))
    unnamed = _unnamed(subject)
    found: dict[str, list[Patches]] = {name: [] for name in views}
    steps = max(1, len(stream.pool) // stream.batch_size)
    for step in progress(iter(range(steps)), total=steps, label="mixing"):
        batch = stream.batch(step)
        for name, patches in _one_batch(subject, views, batch, unnamed).items():
            found[name].append(patches)
    numbers = {name: summarize(parts, unnamed is not None) for name, parts in found.items()}
    return _finding(subject, numbers)


def build_views(cfg: DictConfig, option: str) -> Views:
    """The views of an augment option, under the settings of a run."""
    from omegaconf import OmegaConf, open_dict

    composed = config.compose([f"augment={option}"])
    with open_dict(composed):
        for group in ("dataset", "pseudo_label", "scale", "trusted_packages"):
            composed[group] = cfg[group]
        composed.preset = OmegaConf.merge(composed.preset, cfg.preset)
    return config.build(composed, "augment")


@torch.no_grad()
def _one_batch(
    subject: Subject, views: dict[str, Views], batch: Batch, unnamed: np.ndarray | None
) -> dict[str, Patches]:
    """All strategies on the same images, donors and teacher maps."""
    method, hardware = subject.parts.method, subject.parts.hardware
    ready = subject.ready(batch)
    weak = next(iter(views.values())).weak(ready)
    probability = method.teach(weak.image, ready)
    empty = None if unnamed is None else unnamed[batch.index.numpy()]
    found = {}
    for name, view in views.items():
        plan = view.plan(batch, _no_text).to(hardware.device)
        mixed = view.strong(weak, replace(ready, plan=plan), probability)
        found[name] = measure(
            mixed, probability, replace(batch, plan=plan), vocabulary=subject.vocabulary,
            unnamed=empty,
        )  # fmt: skip
    return found


def measure(
    mixed: Mixed, probability: Tensor, batch: Batch, *, vocabulary: str, unnamed: np.ndarray | None
) -> Patches:
    """Measure the patches of a mixed batch.

    Args:
        mixed: what the mixer made.
        probability: P (B, 1, H, W), before mixing.
        batch: with its plan.
        vocabulary: of its sentences.
        unnamed: (B, K) bool, regions that hold a lesion which no sentence names, if known.
    """
    donor, patch = batch.plan.donor.cpu(), mixed.patch.cpu()
    score, _ = lesion_gate(probability.cpu()[donor], patch, 0.0)
    size = patch.shape[-2:]
    boxes = torch.from_numpy(region_masks(vocabulary, *size)).float()
    regions = batch.position[donor] @ boxes.flatten(1) > 0  # (B, H * W)
    given = [batch.sentences[j] for j in donor.tolist()]
    coarse = np.stack([coarse_region(text, vocabulary, *size) for text in given])
    flat = patch.flatten(1)
    overlap, named = (
        ((flat * inside).sum(1) / flat.sum(1).clamp(min=1)).numpy()
        for inside in (torch.from_numpy(coarse).flatten(1), regions)
    )
    pasted = mixed.pasted.cpu().numpy()
    ambiguous = np.zeros(len(batch), dtype=bool)
    if unnamed is not None:
        rows = zip(batch.plan.sentences, mixed.choice.tolist(), strict=True)
        after = np.array([parse(texts[k], vocabulary) for texts, k in rows])
        added = (after > 0) & (batch.position.numpy() == 0)
        ambiguous = pasted & (added & unnamed).any(1)
    tried = flat.amax(1).numpy() > 0
    return Patches(tried, score.numpy(), overlap, named, pasted, ambiguous)


def summarize(parts: Sequence[Patches], knows_lesions: bool) -> dict[str, float | int | None]:
    """Means over the patches of a strategy; None where there was no patch."""
    whole = Patches(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Patches)))
    tried, pasted = int(whole.tried.sum()), int(whole.pasted.sum())

    def mean(values: np.ndarray) -> float | None:
        return float(values.mean()) if len(values) else None

    return {
        "samples": len(whole.tried),
        "patches": tried,
        "lesion_score": mean(whole.score[whole.tried].astype(np.float64)),
        "position_overlap": mean(whole.overlap[whole.tried].astype(np.float64)),
        "named_overlap": mean(whole.named[whole.tried].astype(np.float64)),
        "gate_opens": pasted / tried if tried else None,
        "pasted": pasted / len(whole.tried),
        "ambiguous": mean(whole.ambiguous[whole.pasted]) if knows_lesions else None,
    }


def _no_text(sentences: Sequence[str]) -> TextInput:
    """Nothing reads the mixed sentences here, so they are not encoded."""
    del sentences
    return TextInput(None, None, None)


def _stream(subject: Subject, *, draws: int) -> Stream:
    """The unlabeled images in the order of the run's first pass, with its random numbers."""
    parts = subject.parts
    _, unlabeled = parts.dataset.labeled_places(
        fraction=parts.cfg.ratio.fraction, split_seed=parts.cfg.ratio.split_seed
    )
    if not unlabeled:
        raise UserError(f"{subject.folder} has no unlabeled images: there is nothing to mix")
    pool = parts.pool("train", unlabeled, masks=False)
    size = min(parts.cfg.trainer.batch_size, len(pool))
    return Stream(pool, "unlabeled", parts.cfg.seed.value, size, draws, "cycle")


def _unnamed(subject: Subject) -> np.ndarray | None:
    """Regions of each training image (N, K) that hold an unnamed lesion, where that is known."""
    shown = getattr(subject.parts.dataset, "shown_regions", None)
    if shown is None:
        return None
    named = subject.parts.dataset.split("train").positions > 0
    images = progress(shown("train"), total=len(named), label="unnamed lesions")
    return np.array(list(images), dtype=bool) & ~named


def _finding(subject: Subject, numbers: dict[str, dict[str, Any]]) -> Finding:
    def shown(value: float | None) -> str:
        return "–" if value is None else percent(value)

    keys = ("lesion_score", "position_overlap", "named_overlap", "gate_opens", "pasted",
            "ambiguous")  # fmt: skip
    lines = [("strategy", "lesion score", "position overlap", "in named regions", "gate opens",
              "samples pasted", "unnamed blob")]  # fmt: skip
    lines += [(name, *(shown(row[key]) for key in keys)) for name, row in numbers.items()]
    samples = next(iter(numbers.values()))["samples"]
    return Finding(
        title=f"Patch mixing, {samples} unlabeled training images, teacher of {subject.name}, "
        "percent",
        numbers={"samples": samples, "strategies": numbers},
        lines=lines,
        notes=(
            "lesion score and position overlap: of M, before the gate; gate opens: of all patches",
            "in named regions: without the level that a phrase skips (upper lower left lung)",
            "unnamed blob: of all pastes, those after which the sentence names a region of the "
            "receiving image that also holds a lesion it did not name",
        ),
        figure=draw_mixing(numbers, name=subject.name, source=subject.folder.name),
    )
