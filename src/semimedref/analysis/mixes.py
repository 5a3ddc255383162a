"""Single mixes of a run's teacher: what was pasted from where, and what the sentence says then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from semimedref.analysis.mixing import _no_text, _stream, build_views
from semimedref.augment.t_patchmix import lesion_gate
from semimedref.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from semimedref.analysis.subject import Subject
    from semimedref.augment.t_patchmix import Mixed
    from semimedref.dataset.sample import Batch

STRATEGY = "t_patchmix_hybrid"  # the paper's


@dataclass(frozen=True)
class Mix:
    """One pasted patch; images (H, W) uint8, masks (H, W) bool."""

    recipient_id: str
    donor_id: str
    recipient: np.ndarray
    donor: np.ndarray
    mixed: np.ndarray
    pseudo_before: np.ndarray
    pseudo_after: np.ndarray
    box: tuple[int, int, int, int]  # left, top, right, bottom
    score: float  # r, the mean of the donor's P inside the patch
    before: str
    given: str  # the donor's sentence
    after: str


@torch.no_grad()
def pasted(subject: Subject) -> list[Mix]:
    """Every patch that passes the gate in one pass over the unlabeled images, in their order."""
    method = subject.parts.method
    if not hasattr(method, "teach"):
        raise UserError(f"{subject.folder.name} has no teacher: expected method=teacher_student")
    views = build_views(subject.parts.cfg, STRATEGY)
    # Jitter and blur change the student's image only; without them the patch is seen as it is.
    views.jitter = views.blur = None
    stream = _stream(subject, draws=views.draws)
    ids = stream.pool.split.ids
    found: list[Mix] = []
    for step in range(max(1, len(stream.pool) // stream.batch_size)):
        batch = stream.batch(step)
        ready = subject.ready(batch)
        weak = views.weak(ready)
        probability = method.teach(weak.image, ready)
        plan = views.plan(batch, _no_text).to(subject.parts.hardware.device)
        mixed = views.strong(weak, replace(ready, plan=plan), probability)
        own = replace(batch, plan=plan)
        targets = method.pseudo_label(probability), method.target(mixed)
        found += _of_batch(own, weak.image, mixed, probability, targets=targets, ids=ids)
    return found


def _of_batch(
    batch: Batch,
    image: Tensor,
    mixed: Mixed,
    probability: Tensor,
    *,
    targets: tuple[Tensor, Tensor],
    ids: tuple[str, ...],
) -> Iterator[Mix]:
    donor = batch.plan.donor.cpu()
    score, _ = lesion_gate(probability.cpu()[donor], mixed.gated.cpu(), 0.0)
    before, after = (t[:, 0].cpu().numpy() >= 0.5 for t in targets)
    for i in np.flatnonzero(mixed.pasted.cpu().numpy()).tolist():
        j = int(donor[i])
        yield Mix(
            recipient_id=ids[int(batch.index[i])],
            donor_id=ids[int(batch.index[j])],
            recipient=_gray(image[i]),
            donor=_gray(image[j]),
            mixed=_gray(mixed.image[i]),
            pseudo_before=before[i],
            pseudo_after=after[i],
            box=_box(mixed.gated[i, 0].cpu().numpy() > 0),
            score=float(score[i]),
            before=batch.sentences[i],
            given=batch.sentences[j],
            after=batch.plan.sentences[i][int(mixed.choice[i])],
        )


def _gray(image: Tensor) -> np.ndarray:
    return np.clip(np.round(255 * image[0].float().cpu().numpy()), 0, 255).astype(np.uint8)


def _box(mask: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
