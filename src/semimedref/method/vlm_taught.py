"""What DuSSS and AMVLM share: pseudo-masks that a teacher and the sentence agree on.

A vision-language model that was trained before (``needs``) says where the sentence is; the student
needs no text once it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import Taught
from semimedref.method.supervised import mask_of
from semimedref.method.teacher_student import add_parameters
from semimedref.model.losses import balanced_dice_bce
from semimedref.model.reader import TextInput
from semimedref.model.segmenter import Outputs, Segmenter, check_choice
from semimedref.model.vlm.text_mask import TextMask
from semimedref.model.vlm.vlm import VLM

PSEUDO_MASKS = ("soft", "hard")
_NEARLY = 1e-6  # a probability of exactly 0 or 1 has no logit


@dataclass(frozen=True)
class TextPlan:
    """Sentences of a batch, prepared for the vision-language model."""

    texts: TextInput

    def to(self, device: torch.device | str) -> TextPlan:
        """On a device; copies do not block."""
        return TextPlan(self.texts.to(device))


class VLMTaught(Taught):
    """One loss over masks and pseudo-masks, half the teacher's and half the sentence's.

    Args:
        model: published: a plain U-Net; any network.
        views: the weak view alone.
        loss: of networks that have none of their own.
        text_dropout: of the student's text encoder, if it has one.
        momentum: of the teacher at its slowest.
        vlm: the frozen model; its weights come from the run ``vlm`` that the configuration needs.
        text_mask: makes the masks of sentences.
        weight_grounding: of the contrast by which masks of sentences are learned.
        weight_text: share of the loss of those masks, against the teacher.
        pseudo_mask: soft, the mean itself, towards which the teacher then drifts; or hard, that
            mean cut at one half.
        as_released: file names for sentences, a teacher with the statistics of its batch, masks
            of sentences that learn nothing from it, and
            pseudo-masks sigmoid(teacher + mask), which are all above one half, so that the
            U-Net's loss takes every pixel for a lesion.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        vlm: VLM,
        text_mask: TextMask,
        weight_grounding: float,
        weight_text: float,
        pseudo_mask: str,
        as_released: bool,
    ) -> None:
        super().__init__(
            model=model, views=views, loss=loss, text_dropout=text_dropout, momentum=momentum
        )
        check_choice("method.pseudo_mask", pseudo_mask, PSEUDO_MASKS)
        self.vlm, self.text_mask = vlm, text_mask
        self.vlm.freeze()
        self.weight_grounding, self.weight_text = weight_grounding, weight_text
        self.pseudo_mask, self.as_released = pseudo_mask, as_released
        self.batch_statistics = as_released
        self._names: Sequence[str] = ()

    def to(self, device: object) -> Self:
        """Move the vision-language model and the masks' decoder, too."""
        self.vlm.to(device)
        self.text_mask.to(device)
        return super().to(device)

    def check_side(self, side: int) -> None:
        """Both networks must take it."""
        super().check_side(side)
        self.vlm.check_side(side)

    def start_from(self, name: str, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over the vision-language model."""
        assert name == "vlm", name
        self.vlm.load_frozen(pick(weights, "student"))

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """File names, should they be read."""
        self._names = unlabeled.split.ids

    def plan(self, batch: Batch, progress: Progress) -> TextPlan:
        """The sentences, or, as released, the names of the images' files."""
        del progress
        read = batch.sentences
        if self.as_released:
            read = [f"{self._names[i]}.png" for i in batch.index.tolist()]
        return TextPlan(self.vlm.prepare_text(read))

    def rehearsal(self, plan: Plan, side: int) -> TextPlan:
        """Sentences without words."""
        del side
        return TextPlan(self.vlm.text_encoder.blank(len(plan.donor), plan.donor.device))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The student and the masks' decoder."""
        groups = super().parameter_groups()
        add_parameters(groups, self.text_mask.parameters())
        return groups

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Both kinds of images in one pass and one loss."""
        if unlabeled is None:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        taught = self.teach(weak.image, unlabeled)
        mask, grounding = self.masks(weak.image, unlabeled.plan.texts)
        pseudo = self.pseudo(taught, mask.detach())
        others = [(self.views.normalize(weak.image), self.student_text(unlabeled))]
        first, second = self.pass_over(known, self.student_text(labeled), others)
        target = torch.cat([mask_of(known), pseudo])
        loss_seg = self.objective(joined(first, second), target)
        loss_text = self.text_loss(mask, taught)
        total = (1 - self.weight_text) * loss_seg + self.weight_text * loss_text
        return {
            "loss": total + self.weight_grounding * grounding,
            "loss_seg": loss_seg,
            "loss_text": loss_text,
            "loss_grounding": grounding,
            "text_mask": mask.detach().mean(),
        }

    def masks(self, image: Tensor, texts: TextInput) -> tuple[Tensor, Tensor]:
        """Masks (B, 1, H, W) of the sentences, and the contrast that trains them."""
        with torch.no_grad():
            patches = self.vlm.patch_map(self.vlm.normalized(image))
            sentences = self.vlm.read(self.vlm.encode_text(texts)).whole
        return self.text_mask(patches, sentences, image.shape[-1])

    def text_loss(self, mask: Tensor, taught: Tensor) -> Tensor:
        """The mask of the sentences against the teacher's probability.

        As released nothing learns from it: its gradient is cleared before that mask's optimizer
        takes its step.
        """
        mask = mask.detach() if self.as_released else mask
        return balanced_dice_bce(torch.logit(mask, _NEARLY), taught)

    def pseudo(self, taught: Tensor, mask: Tensor) -> Tensor:
        """(p + m) / 2, or it cut; as released sigmoid(p + m), between 0.63 and 0.85."""
        if self.as_released:
            return (taught + mask).sigmoid()
        mean = (taught + mask) / 2
        return mean if self.pseudo_mask == "soft" else (mean > 0.5).float()

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """With the masks' decoder."""
        return super().weights() | {"text_mask": self.text_mask.state_dict()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take all back."""
        super().load_weights(state)
        self.text_mask.load_state_dict(pick(state, "text_mask"))


def joined(first: Outputs, second: Outputs) -> Outputs:
    """Outputs of two batches as one."""
    extra = {k: torch.cat([v, second.extra[k]]) for k, v in first.extra.items()}
    return Outputs(torch.cat([first.logits, second.logits]), extra)
