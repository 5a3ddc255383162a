"""T-PatchMix: image patch, pseudo-mask and positional words of two samples mixed together.

The paper pastes one square that the teacher takes for a lesion. The variant ``cells`` exchanges
whole cells of the position grid instead, lesion or not: then a seam says nothing about lesions, and
the sentence, which is written from the mixed label, is true.

Batched tensor code without a host sync: who gives to whom, where a phrase allows a patch and which
sentences could result are planned on the host; what the teacher decides stays on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.mixed_text import MixedText
from semimedref.augment.plan import Plan, derangement, empty_plan, permutation
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.text.spans import Writing
from semimedref.text.vocabulary import Box, Vocabulary
from semimedref.text.vocabulary import vocabulary as look_up

VARIANTS = ("random", "pos", "prob", "hybrid", "cells")
SUBSETS = ("any", "side", "level")
_EPSILON = 1e-6  # of the lesion ratio's denominator


@dataclass(frozen=True)
class Mixed:
    """Strong images, mixed probabilities, and per sample whether and where a patch was pasted."""

    image: Tensor  # (B, 1, H, W)
    probability: Tensor  # (B, 1, H, W)
    patch: Tensor  # (B, 1, H, W) M, before the gate
    gated: Tensor  # (B, 1, H, W) M-hat
    pasted: Tensor  # (B,) bool
    choice: Tensor  # (B,) int64: the candidate sentence that is true now
    unmixed_threshold: float | None = None  # of a pseudo-mask without a patch; None: delta


def patch_mask(corner: Tensor, side: int, height: int, width: int) -> Tensor:
    """M: ones in the square of ``side`` pixels at ``corner`` (B, 2) = (x, y)."""
    x = torch.arange(width, device=corner.device)[None, None, :]
    y = torch.arange(height, device=corner.device)[None, :, None]
    left, top = corner[:, 0, None, None], corner[:, 1, None, None]
    columns = ((x >= left) & (x < left + side)).to(torch.float32)  # (B, 1, W)
    rows = ((y >= top) & (y < top + side)).to(torch.float32)  # (B, H, 1)
    return (rows * columns)[:, None]


def mix(ours: Tensor, donor: Tensor, mask: Tensor) -> Tensor:
    """(1 - M) * ours + M * donor (paper, Eqs. patch mixing and mixed pseudo-mask)."""
    return torch.lerp(ours, donor, mask)


def lesion_gate(probability: Tensor, patch: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """r_i = sum(P_j M) / (sum M + eps) and M-hat = M * 1[r_i >= delta] (paper, Eq. gate)."""
    ratio = (probability * patch).sum((1, 2, 3)) / (patch.sum((1, 2, 3)) + _EPSILON)
    keep = (ratio >= threshold).to(patch.dtype)
    return ratio, patch * keep[:, None, None, None]


def uniform_corner(box: Tensor, side: int, u: Tensor) -> Tensor:
    """A patch anywhere inside ``box`` (B, 4) = (left, top, right, bottom); u is (B, 2)."""
    room = (box[:, 2:] - box[:, :2] - side).clamp(min=0)
    return box[:, :2] + torch.floor(u * (room + 1)).to(box.dtype).minimum(room)


def positive_corner(
    probability: Tensor, box: Tensor, side: int, *, threshold: float, u: Tensor
) -> tuple[Tensor, Tensor]:
    """A patch centered on a random pixel of ``box`` where P_j >= delta, shifted to lie inside.

    Returns:
        The corner (B, 2), and whether such a pixel exists (B,).
    """
    height, width = probability.shape[-2:]
    x = torch.arange(width, device=box.device)[None, None, :]
    y = torch.arange(height, device=box.device)[None, :, None]
    left, top, right, bottom = (box[:, k, None, None] for k in range(4))
    inside = ((x >= left) & (x < right)) & ((y >= top) & (y < bottom))
    positive = ((probability[:, 0] >= threshold) & inside).flatten(1).to(torch.int32)
    rank = positive.cumsum(1, dtype=torch.int32)  # integers: deterministic on every device
    count = rank[:, -1]
    wanted = torch.floor(u * count).to(torch.int32).minimum((count - 1).clamp(min=0))
    place = torch.searchsorted(rank, wanted[:, None], right=True)[:, 0]
    center = torch.stack([place % width, place // width], 1)
    last = (box[:, 2:] - side).maximum(box[:, :2])
    corner = (center - side // 2).maximum(box[:, :2]).minimum(last)
    return corner, count > 0


def cell_mask(
    chosen: Tensor, boxes: Sequence[Box], height: int, width: int, *, edge: int
) -> Tensor:
    """M (B, 1, H, W): ones in the cells that are chosen (B, K) to come from the donor.

    Where boxes overlap a pixel belongs to the last one, outside all of them to none. An ``edge``
    of n pixels fades from one image to the other over 2 n + 1 pixels.
    """
    mask = torch.zeros(len(chosen), 1, height, width, device=chosen.device)
    for k, box in enumerate(boxes):
        top, bottom, left, right = box.pixels(height, width)
        mask[:, :, top:bottom, left:right] = chosen[:, k, None, None, None].to(mask.dtype)
    if edge == 0:
        return mask
    padded = F.pad(mask, (edge,) * 4, mode="replicate")
    return F.avg_pool2d(padded, 2 * edge + 1, stride=1)


class TPatchMix:
    """A patch of a donor, where its sentence and its teacher map allow it, or some of its cells.

    Args:
        variant: ``random`` (anywhere), ``pos`` (in the box of a phrase of the donor), ``prob`` (on
            a pixel where the teacher is sure), ``hybrid`` (both), ``cells`` (whole cells of the
            position grid, without a gate).
        probability: of trying to mix a sample.
        patch: side of the square in pixels at ``reference_side``, scaled to other sides.
        reference_side: see patch.
        threshold: delta, of teacher-positive pixels and of the lesion gate.
        unmixed_threshold: of pseudo-masks without a patch: ``delta``, or a number (release: 0.5).
        gate_image: paste into the image only what passes the gate; false is the literal equation.
        self_pairs: a sample may be its own donor.
        region_from: see `MixedText`, as conflict and update_count.
        conflict: see `MixedText`.
        update_count: see `MixedText`.
        transpose: read region boxes on exchanged axes (release): "left" is the upper half.
        vocabulary: regions of the data set's sentences.
        writing: how its sentences count.
        subset: which cells may come from the donor together: ``any`` of them but not all, those of
            a ``side``, or those of a ``level`` (cells alone).
        edge: pixels at ``reference_side`` over which cells fade into each other (cells alone).
    """

    draws = 6

    def __init__(
        self,
        *,
        variant: str,
        probability: float,
        patch: int,
        reference_side: int,
        threshold: float,
        unmixed_threshold: float | str,
        gate_image: bool,
        self_pairs: bool,
        region_from: str,
        conflict: str,
        update_count: bool,
        transpose: bool,
        vocabulary: str,
        writing: Writing | None,
        subset: str,
        edge: float,
    ) -> None:
        if variant not in VARIANTS:
            raise UserError(f"augment variant '{variant}': expected {', '.join(VARIANTS)}")
        self.variant, self.probability, self.threshold = variant, probability, threshold
        self.unmixed_threshold = _number_or_delta(unmixed_threshold)
        self.patch, self.reference_side = patch, reference_side
        self.gate_image, self.self_pairs = gate_image, self_pairs
        self.text = MixedText(vocabulary, writing, region_from, conflict, update_count)
        self._words_follow = update_count and variant in ("random", "prob")
        boxes = look_up(vocabulary).boxes
        self.regions = tuple(map(transposed, boxes)) if transpose else boxes
        self.edge = edge
        self.subsets = _Subsets(look_up(vocabulary), subset) if variant == "cells" else None

    def plan(self, batch: Batch, u: np.ndarray) -> Plan:
        """Donors, boxes and candidate sentences for a batch on the host; u is (B, draws)."""
        side, n = batch.image.shape[-1], len(batch)
        donor = (permutation if self.self_pairs else derangement)(u[:, 0])
        tried = (u[:, 1] < self.probability) & ((donor != np.arange(n)) | self.self_pairs)
        if self.subsets is not None:
            return self._plan_cells(batch, donor, tried, u[:, 2], self.subsets)
        rows, boxes, allowed = [], [], []
        for i, j in enumerate(donor):
            texts, box, free = self._candidates(batch, i, int(j), u[i, 2], side)
            rows.append(texts)
            boxes.append(box)
            allowed.append(bool(tried[i]) and free)
        return Plan(
            sentences=tuple(rows),
            donor=torch.from_numpy(donor),
            box=torch.tensor(boxes),
            allowed=torch.tensor(allowed),
            flip=torch.zeros(n, dtype=torch.bool),
        )

    def _plan_cells(
        self, batch: Batch, donor: np.ndarray, tried: np.ndarray, u: np.ndarray, subsets: _Subsets
    ) -> Plan:
        """Which cells come from the donor, and the sentence that is true of the mixed label."""
        labels = batch.position.int().tolist()
        base = empty_plan(batch.sentences, batch.image.shape[-1])
        rows, brought = [], []
        cells = torch.zeros(len(batch), len(self.regions), dtype=torch.bool)
        for i, j in enumerate(donor.tolist()):
            own, chosen, mixed = batch.sentences[i], subsets.pick(float(u[i])), None
            if tried[i] and chosen:
                pair = labels[i], labels[j]
                mixed = self.text.exchanged(own, batch.sentences[j], pair, chosen)
            rows.append((own, own if mixed is None else mixed))
            if mixed is not None:
                cells[i, list(chosen)] = True
            brought.append(tuple(k for k in sorted(chosen) if cells[i, k] and labels[j][k]))
        return replace(
            base,
            sentences=tuple(rows),
            donor=torch.from_numpy(donor),
            allowed=cells.any(1),
            cells=cells,
            brought=tuple(brought),
        )

    def _candidates(
        self, batch: Batch, i: int, j: int, u: float, side: int
    ) -> tuple[tuple[str, ...], tuple[int, int, int, int], bool]:
        """The sentences that sample i could end with, where the patch may lie, and whether."""
        own, given, whole = batch.sentences[i], batch.sentences[j], (0, 0, side, side)
        labels = batch.position[i].int().tolist(), batch.position[j].int().tolist()
        if self.variant in ("random", "prob"):
            sure = self.variant == "prob"
            return self.text.anywhere(own, given, labels[0], sure=sure), whole, True
        place = self.text.place(own, given, labels, u)
        if place is None:
            return (own, own), whole, False
        return self.text.placed(own, place, labels[0]), self._box(place.regions, side), True

    def _box(self, regions: Sequence[int], side: int) -> tuple[int, int, int, int]:
        """The smallest box around the phrase's regions, in pixels: left, top, right, bottom."""
        boxes = [self.regions[k] for k in regions]
        return (
            round(min(b.left for b in boxes) * side),
            round(min(b.top for b in boxes) * side),
            round(max(b.right for b in boxes) * side),
            round(max(b.bottom for b in boxes) * side),
        )

    def mix(self, image: Tensor, probability: Tensor, plan: Plan, u: Tensor) -> Mixed:
        """Paste the donors' patches on the device; u is (B, draws)."""
        height, width = image.shape[-2:]
        given = probability.index_select(0, plan.donor)
        if plan.cells is not None:
            return self._mix_cells(image, probability, given, plan)
        side = round(self.patch / self.reference_side * width)
        allowed = plan.allowed
        if self.variant in ("prob", "hybrid"):
            corner, found = positive_corner(
                given, plan.box, side, threshold=self.threshold, u=u[:, 3]
            )
            allowed = allowed & found
        else:
            corner = uniform_corner(plan.box, side, u[:, 4:6])
        region = torch.zeros_like(plan.donor)
        if self._words_follow:  # where no region lies, there is no word for the patch
            inside = self._inside(corner + side // 2, height, width)
            region, allowed = inside.to(torch.int32).argmax(1), allowed & inside.any(1)
        patch = patch_mask(corner, side, height, width) * allowed[:, None, None, None]
        _, gated = lesion_gate(given, patch, self.threshold)
        donor_image = image.index_select(0, plan.donor)
        pasted = gated.amax((1, 2, 3)) > 0
        return Mixed(
            image=mix(image, donor_image, gated if self.gate_image else patch),
            probability=mix(probability, given, gated),
            patch=patch,
            gated=gated,
            pasted=pasted,
            choice=pasted * (1 + region),  # of the candidate sentences, the one that is true now
            unmixed_threshold=self.unmixed_threshold,
        )

    def _mix_cells(self, image: Tensor, probability: Tensor, given: Tensor, plan: Plan) -> Mixed:
        """Exchange whole cells, whatever is in them."""
        height, width = image.shape[-2:]
        edge = round(self.edge / self.reference_side * width)
        mask = cell_mask(plan.cells, self.regions, height, width, edge=edge)
        return Mixed(
            image=mix(image, image.index_select(0, plan.donor), mask),
            probability=mix(probability, given, mask),
            patch=mask,
            gated=mask,
            pasted=plan.allowed,
            choice=plan.allowed.long(),
            unmixed_threshold=self.unmixed_threshold,
        )

    def _inside(self, center: Tensor, height: int, width: int) -> Tensor:
        """Whether the centers (B, 2) = (x, y) lie in the box of each region (B, K), bool."""
        y, x = center[:, 1] / height, center[:, 0] / width
        inside = [
            (y >= b.top) & (y < b.bottom) & (x >= b.left) & (x < b.right) for b in self.regions
        ]
        return torch.stack(inside, 1)


class _Subsets:
    """The sets of cells that may come from a donor together."""

    def __init__(self, vocabulary: Vocabulary, kind: str) -> None:
        if kind not in SUBSETS:
            raise UserError(f"augment.mixer.subset={kind}: expected {', '.join(SUBSETS)}")
        self.cells = len(vocabulary.cells)
        self.groups: list[set[int]] | None = None
        if kind != "any":
            names = [getattr(cell, kind) for cell in vocabulary.cells]
            found = [{k for k, n in enumerate(names) if n == name} for name in dict.fromkeys(names)]
            self.groups = [group for group in found if len(group) < self.cells]
            if not self.groups or None in names:
                raise UserError(
                    f"augment.mixer.subset={kind}: not every region of the vocabulary "
                    f"{vocabulary.name!r} has a {kind}; expected subset=any"
                )

    def pick(self, u: float) -> set[int]:
        """One of them, all equally likely, for a number in [0, 1); none where there is one cell."""
        if self.groups is not None:
            return self.groups[min(int(u * len(self.groups)), len(self.groups) - 1)]
        proper = 2**self.cells - 2  # neither none nor all
        number = 1 + min(int(u * proper), proper - 1) if proper > 0 else 0
        return {k for k in range(self.cells) if number >> k & 1}


def transposed(box: Box) -> Box:
    """The box with rows and columns exchanged."""
    return Box(top=box.left, bottom=box.right, left=box.top, right=box.bottom)


def _number_or_delta(threshold: float | str) -> float | None:
    if threshold == "delta":
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise UserError(f"augment.mixer.unmixed_threshold={threshold}: expected delta or a number")
    return float(threshold)
