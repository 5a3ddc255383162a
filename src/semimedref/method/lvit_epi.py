"""``method=lvit_epi``: pseudo-masks that change slowly, and masks of like sentences (TMI 2024).

LViT's semi-supervised training. Its loop was not released, only the loss: see docs/methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import LABELED, SemiSupervised
from semimedref.method.supervised import mask_of
from semimedref.model.segmenter import Segmenter

_READ_AT_ONCE = 64


class LViTEPI(SemiSupervised):
    """Exponential pseudo-label iteration, and a language-vision loss on unlabeled images.

    P begins as what the best student of labeled images says. P <- beta P + (1 - beta) P_now for
    every unlabeled image, when it comes. L = L(labeled) + L(student, P) + w_lv L_LV, where L_LV is
    one minus the cosine of the student's mask and that of the labeled image with the most similar
    sentence.

    Args:
        model: published: LViT.
        views: the weak view; stored maps are of the whole image and zoomed with it.
        loss: of networks that have none of their own.
        text_dropout: of the student's text encoder.
        stages: shares of the epochs, of ``labeled`` and ``all``.
        beta: memory of a pseudo-mask.
        weight_lv: of the language-vision loss.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        stages: Mapping[str, float],
        beta: float,
        weight_lv: float,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        if not model.text_encoder.frozen:
            raise UserError(
                "method=lvit_epi compares sentences by a text encoder that stays as it is: set "
                "text_encoder.frozen=true"
            )
        self.stages, self.beta, self.weight_lv = dict(stages), beta, weight_lv
        self.memory = torch.empty(0, 1, 0, 0, dtype=torch.float16)  # P of each unlabeled image
        self.seen = torch.empty(0, dtype=torch.bool)
        self.row = torch.empty(0, dtype=torch.int64)  # of an image in the memory, by its place
        self.bank_mask = torch.empty(0, 1, 0, 0, dtype=torch.bool)  # of the labeled images
        self.bank_text = torch.empty(0, 0)
        self._sentences: list[str] = []
        self._unlabeled: Pool | None = None

    def to(self, device: object) -> Self:
        """Move memory and bank, too."""
        for name in ("memory", "seen", "row", "bank_mask", "bank_text"):
            setattr(self, name, getattr(self, name).to(device))
        return super().to(device)

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Room for a map of each unlabeled image; sentences and masks of the labeled ones."""
        n, side = len(unlabeled), unlabeled.side
        self._unlabeled = unlabeled
        self.memory = torch.zeros(n, 1, side, side, dtype=torch.float16)
        self.seen = torch.zeros(n, dtype=torch.bool)
        self.row = torch.zeros(len(unlabeled.split), dtype=torch.int64)
        self.row[list(unlabeled.places)] = torch.arange(n)
        batches = list(labeled.batches(_READ_AT_ONCE))
        self.bank_mask = torch.cat([mask_of(batch) > 0 for batch in batches])
        self._sentences = [sentence for batch in batches for sentence in batch.sentences]

    @torch.no_grad()
    def enter(self, stage: str) -> None:
        """Every unlabeled image gets its first pseudo-mask, before anything is learned from it."""
        del stage
        assert self._unlabeled is not None, "a method begins before it enters a stage"
        device = self.memory.device
        self.student.eval()
        for batch in self._unlabeled.batches(_READ_AT_ONCE):
            text = self.student.prepare_text(batch.sentences).to(device)
            ready = replace(batch.to(device), text=text)
            rows = self.row[ready.index]
            self.memory[rows] = self.predict(ready, weights="student").to(self.memory.dtype)
            self.seen[rows] = True

    def plan(self, batch: Batch, progress: Progress) -> None:
        """The sentences of the bank are read when they are first needed."""
        del batch
        if progress.stage != LABELED and not len(self.bank_text):
            device = self.bank_mask.device
            with torch.no_grad():
                text = self.student.prepare_text(self._sentences).to(device)
                self.bank_text = F.normalize(self.student.encode_text(text).pooled, dim=-1)

    def rehearsal(self, plan: Plan, side: int) -> None:
        """Room for the maps of a batch, and a bank as large."""
        n, device = len(plan.donor), plan.donor.device
        self.memory = torch.zeros(n, 1, side, side, dtype=torch.float16, device=device)
        self.seen = torch.zeros(n, dtype=torch.bool, device=device)
        self.row = torch.zeros(n, dtype=torch.int64, device=device)
        self.bank_mask = torch.zeros(n, 1, side, side, dtype=torch.bool, device=device)
        self.bank_text = torch.zeros(n, self.student.text_encoder.width, device=device)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone, or both kinds in one pass."""
        if unlabeled is None or progress.stage == LABELED:
            return super().step(labeled, None, progress)
        known, words = self.views.labeled(labeled), self.student_text(unlabeled)
        pseudo = self.iterate(unlabeled)
        like = self.like_masks(unlabeled)
        weak = self.views.weak(replace(unlabeled, mask=torch.cat([pseudo, like], 1)))
        target, like = mask_of(weak).split(1, 1)
        others = [(self.views.normalize(weak.image), words)]
        first, second = self.pass_over(known, self.student_text(labeled), others)
        loss_sup = self.objective(first, mask_of(known))
        loss_unsup = self.objective(second, target)
        loss_lv = language_vision(second.logits, like)
        return {
            "loss": loss_sup + loss_unsup + self.weight_lv * loss_lv,
            "loss_sup": loss_sup,
            "loss_unsup": loss_unsup,
            "loss_lv": loss_lv,
        }

    @torch.no_grad()
    def iterate(self, batch: Batch) -> Tensor:
        """P of each image (B, 1, H, W) after this step's prediction, in evaluation mode."""
        was = self.student.training
        self.student.eval()
        text = self.student.encode_text(batch.text)
        now = self.student(self.student.normalized(batch.image), text).float().sigmoid()
        self.student.train(was)
        rows = self.row[batch.index]
        known = self.seen[rows][:, None, None, None]
        new = torch.where(known, torch.lerp(now, self.memory[rows].float(), self.beta), now)
        self.memory[rows] = new.to(self.memory.dtype)
        self.seen[rows] = True
        return new

    @torch.no_grad()
    def like_masks(self, batch: Batch) -> Tensor:
        """Masks (B, 1, H, W) of the labeled images whose sentences are most alike."""
        text = F.normalize(self.student.encode_text(batch.text).pooled, dim=-1)
        nearest = (text @ self.bank_text.T).argmax(1)
        return self.bank_mask[nearest].to(torch.float32)

    def state_dict(self) -> dict[str, Any]:
        """With the maps of all images that were seen."""
        maps = {"memory": self.memory, "seen": self.seen}
        return super().state_dict() | {"maps": maps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take all back."""
        super().load_state_dict(state)
        maps, device = pick(state, "maps"), self.memory.device
        self.memory, self.seen = (maps[name].to(device) for name in ("memory", "seen"))


def language_vision(logits: Tensor, like: Tensor) -> Tensor:
    """1 - cosine of the predicted mask with that of a like sentence, a mean over images."""
    p = logits.float().sigmoid().flatten(1)
    return (1 - F.cosine_similarity(p, like.flatten(1), dim=1)).mean()
