"""``method=rar``: unlabeled images are drawn to what is remembered of like labeled ones.

Retrieval-Augmented Representation for Semi-Supervised Medical Image Segmentation, by the authors of
TextMoE. Known from its code. Its network is ``model=rar``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.memory_bank import MemoryBank
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import LABELED, Staged
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import join
from semimedref.model.rar import RARNet
from semimedref.model.segmenter import Outputs, Segmenter


class RAR(Staged):
    """L = L(labeled) + w_u L(student, 1[teacher > 0.5]) + w_c (L_cross + L_img).

    First labeled images alone. In both stages a bank remembers a feature of each labeled image and
    one of its sentence; the best weights of a stage come with the bank of their epoch, as
    published. The weight of the words is fixed in the second stage.

    Args:
        model: RAR's network.
        views: the weak view alone.
        loss: of the network, if it has none of its own.
        text_dropout: of the student's text encoder.
        momentum: of the teacher at its slowest.
        stages: shares of the epochs, of ``labeled`` and ``all``.
        weight_unsup: of the teacher's masks.
        weight_contrast: of both contrasts.
        nearest: how many rows of the bank make a positive.
        temperature: of both contrasts.
        bank_momentum: memory of a row.
        as_released: features over the length of the whole batch's matrix, a teacher with the
            statistics of its batch, and epochs chosen by the TEST set.
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
        weight_unsup: float,
        weight_contrast: float,
        nearest: int,
        temperature: float,
        bank_momentum: float,
        as_released: bool,
    ) -> None:
        _check(model, nearest, temperature, bank_momentum)
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum,
            stages=stages,
        )
        self.weight_unsup, self.weight_contrast = weight_unsup, weight_contrast
        self.nearest, self.temperature = nearest, temperature
        self.bank_momentum, self.as_released = bank_momentum, as_released
        self.batch_statistics = as_released
        self.selects_on = "test" if as_released else "valid"
        self.bank = self._new_bank(torch.zeros(0, dtype=torch.int64), 0)

    def to(self, device: object) -> Self:
        """Move the bank, too."""
        self.bank.to(device)
        return super().to(device)

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Room for a row of each labeled image."""
        del unlabeled
        row = torch.zeros(len(labeled.split), dtype=torch.int64)
        row[list(labeled.places)] = torch.arange(len(labeled))
        self.bank = self._new_bank(row, len(labeled))

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Nothing is mixed."""

    def rehearsal(self, plan: Plan, side: int) -> None:
        """A bank as large as the batch."""
        del side
        n, device = len(plan.donor), plan.donor.device
        row = torch.zeros(n, dtype=torch.int64)
        self.bank = self._new_bank(row, n).to(device)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone, or both kinds in one pass."""
        known, text = self.views.labeled(labeled), self.student_text(labeled)
        self.student.fusion.scale.requires_grad_(progress.stage == LABELED)
        if unlabeled is None or progress.stage == LABELED:
            outputs = self.student.outputs(known.image, text)
            self.bank.remember(labeled.index, *self.features(outputs))
            loss_sup = self.objective(outputs, mask_of(known))
            return {"loss": loss_sup, "loss_sup": loss_sup}
        weak, n = self.views.weak(unlabeled), len(labeled)
        pseudo = (self.teach(weak.image, unlabeled) > 0.5).float()
        both = torch.cat([known.image, self.views.normalize(weak.image)])
        outputs = self.student.outputs(both, join([text, self.student_text(unlabeled)]))
        first, second = outputs.split(n)
        image, words = self.features(outputs)
        self.bank.remember(labeled.index, image[:n], words[:n])
        cross, own = self.bank.contrasts(
            image[n:], words[n:], nearest=self.nearest, temperature=self.temperature
        )
        loss_sup = self.objective(first, mask_of(known))
        loss_unsup = self.objective(second, pseudo)
        contrasts = self.weight_contrast * (cross + own)
        return {
            "loss": loss_sup + self.weight_unsup * loss_unsup + contrasts,
            "loss_sup": loss_sup,
            "loss_unsup": loss_unsup,
            "loss_cross": cross,
            "loss_image": own,
        }

    def features(self, outputs: Outputs) -> tuple[Tensor, Tensor]:
        """Of images and sentences (B, C), each of length one; as released, all of them together."""
        image, text = (outputs.extra[name].float() for name in ("image", "text"))
        if self.as_released:
            return image / image.norm(), text / text.norm()
        return F.normalize(image, dim=-1), F.normalize(text, dim=-1)

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """With the bank."""
        return super().weights() | {"bank": self.bank.state_dict()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take all back."""
        super().load_weights(state)
        self.bank.load(pick(state, "bank"))

    def _new_bank(self, row: Tensor, rows: int) -> MemoryBank:
        width = self.student.image_encoder.widths[-1]
        return MemoryBank(row, rows, width=width, momentum=self.bank_momentum)


def _check(model: Segmenter, nearest: int, temperature: float, memory: float) -> None:
    if not isinstance(model, RARNet):
        raise UserError(
            f"method=rar compares features of images and sentences, which {type(model).__name__} "
            "has not: choose model=rar"
        )
    if not model.text_encoder.frozen:
        raise UserError(
            "method=rar remembers sentences as a text encoder reads them that stays as it is: set "
            "text_encoder.frozen=true"
        )
    if nearest < 1:
        raise UserError(f"method.nearest={nearest}: expected 1 or more; set method.nearest=5")
    if temperature <= 0:
        raise UserError(
            f"method.temperature={temperature}: expected a number above 0; set "
            "method.temperature=0.07"
        )
    if not 0 <= memory < 1:
        raise UserError(
            f"method.bank_momentum={memory}: expected a number from 0 to below 1; set "
            "method.bank_momentum=0.99"
        )
