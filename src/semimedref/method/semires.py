"""``method=semires``: pseudo-masks matched with candidates, or weighed pixel by pixel (ICML 2024).

Candidates are masks that somebody drew before, published: SAM's. Without them every pseudo-mask
stays as the teacher drew it, and unsure pixels hardly count: the port that needs no SAM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.views import Views
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.candidates import CandidatePlan, Candidates, best_overlap, composed
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import LABELED, Staged
from semimedref.method.supervised import mask_of
from semimedref.model.segmenter import Segmenter, check_choice

MATCHES = ("iom", "cpi")


class SemiRES(Staged):
    """Burn-in on labeled images, then L_s + w L_u with an EMA teacher; sentences are never edited.

    L_u is a cross-entropy: with a matched candidate as label, classes weighed as in LAVT; else with
    the teacher's mask, each pixel weighed by w(p). Where a batch has both, half of each.

    Args:
        model: published: LAVT.
        views: weak for the teacher, jittered for the student; nothing is mixed.
        loss: of labeled images, for networks without a loss of their own.
        text_dropout: of the student's text encoder.
        momentum: of the teacher, from its first step on.
        stages: shares of the epochs, of ``labeled`` and ``all``.
        candidates: a folder with candidate masks, or None.
        match: iom (the best one) or cpi (all that fit, together).
        iom_threshold: least IoU.
        cpi_threshold: least share of either mask.
        most: candidates of an image that are looked at.
        class_weights: of background and lesion where a candidate was matched.
        pwa_height: of the weight w(p) of a pixel, before the bell is taken away.
        pwa_variance: of that bell around p = 0.5.
        weight_pseudo: of L_u; at 0 the second stage learns from labeled images alone.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        stages: Mapping[str, float],
        candidates: str | None,
        match: str,
        iom_threshold: float,
        cpi_threshold: float,
        most: int,
        class_weights: tuple[float, float],
        pwa_height: float,
        pwa_variance: float,
        weight_pseudo: float,
    ) -> None:
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum,
            stages=stages,
        )
        check_choice("method.match", match, MATCHES)
        self.match = match
        self.candidates = None if candidates is None else Candidates(candidates, most=most)
        self.threshold = iom_threshold if match == "iom" else cpi_threshold
        self.class_weights, self.most = tuple(class_weights), most
        self.pwa = {"height": pwa_height, "variance": pwa_variance}
        self.weight_pseudo = weight_pseudo
        self._ids: tuple[str, ...] = ()
        if self.candidates is not None and views.zoom.probability > 0:
            raise UserError(
                "method.candidates are drawn on whole images, and a zoomed view would not fit "
                "them: set augment.zoom.probability=0"
            )

    def momentum(self, progress: Progress) -> float:
        """Constant: the teacher begins as a network that is trained, and stays near it."""
        del progress
        return self.highest_momentum

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Every unlabeled image must have its candidates."""
        del labeled
        self._ids = unlabeled.split.ids
        if self.candidates is not None:
            self.candidates.check([self._ids[i] for i in unlabeled.places])

    def plan(self, batch: Batch, progress: Progress) -> CandidatePlan | None:
        """The views' plan, and the candidates of each image."""
        if progress.stage == LABELED:
            return None
        masks = None
        if self.candidates is not None:
            ids = [self._ids[i] for i in batch.index.tolist()]
            masks = self.candidates.batch(ids, batch.image.shape[-1])
        return CandidatePlan(self.views.plan(batch, self.student.prepare_text), masks)

    def rehearsal(self, plan: Plan, side: int) -> CandidatePlan:
        """With as many candidates as there may be."""
        shape = (len(plan.donor), self.most, side, side)
        masks = torch.zeros(shape, dtype=torch.bool, device=plan.donor.device)
        return CandidatePlan(plan, None if self.candidates is None else masks)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone, or both kinds in one pass."""
        if unlabeled is None or progress.stage == LABELED:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        probability = self.teach(weak.image, unlabeled)
        strong = self.views.normalized(self.views.perturb(weak, unlabeled))
        others = [(strong, self.student_text(unlabeled))]
        first, second = self.pass_over(known, self.student_text(labeled), others)
        loss_sup = self.objective(first, mask_of(known))
        target, matched = self.refine(probability, unlabeled.plan.masks)
        loss_unsup = self.unlabeled_loss(second.logits, target, probability, matched)
        return {
            "loss": loss_sup + self.weight_pseudo * loss_unsup,
            "loss_sup": loss_sup,
            "loss_unsup": loss_unsup,
            "matched": matched.float().mean(),
        }

    def refine(self, probability: Tensor, masks: Tensor | None) -> tuple[Tensor, Tensor]:
        """Pseudo-masks (B, 1, H, W), and for which of them (B,) a candidate was matched."""
        pseudo = (probability > 0.5).float()
        if masks is None:
            return pseudo, torch.zeros(len(pseudo), dtype=torch.bool, device=pseudo.device)
        rule = best_overlap if self.match == "iom" else composed
        found, matched = rule(pseudo, masks, threshold=self.threshold)
        return torch.where(matched[:, None, None, None], found, pseudo), matched

    def unlabeled_loss(
        self, logits: Tensor, target: Tensor, probability: Tensor, matched: Tensor
    ) -> Tensor:
        """L_u; without a wait for the device, so both groups are summed and masked."""
        each = F.binary_cross_entropy_with_logits(logits.float(), target, reduction="none")
        background, lesion = self.class_weights
        weight = torch.where(target > 0, lesion, background)
        one = matched[:, None, None, None].to(each.dtype)
        with_candidate = (one * weight * each).sum() / (one * weight).sum().clamp(min=1e-12)
        others = 1 - one
        pixels = (others * torch.ones_like(each)).sum().clamp(min=1e-12)
        without = (others * pixel_weight(probability, **self.pwa) * each).sum() / pixels
        groups = matched.any().to(each.dtype) + (~matched).any().to(each.dtype)
        return (with_candidate + without) / groups


def pixel_weight(probability: Tensor, *, height: float, variance: float) -> Tensor:
    """PWA: w(p) = height - N(p; 0.5, variance), near 0 where nobody is sure."""
    bell = torch.exp(-((probability - 0.5) ** 2) / (2 * variance))
    return height - bell / math.sqrt(2 * math.pi * variance)
