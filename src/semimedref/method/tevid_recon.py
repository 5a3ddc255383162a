"""``method=tevid_recon``: decoders for target and background teach each other. A RECONSTRUCTION.

Zeng et al., "Decoupling Target Semantics via Text-Anchored Visual Contrast for Semi-Supervised
Medical Image Segmentation", IEEE TIP 2026. Neither code nor full text was available.

Known from the abstract: a teacher and a student; a dual decoder that separates target from
background, on labeled and unlabeled images; reversed cross-supervision between the decoders on
unlabeled ones; a visual contrastive loss that the teacher guides, and one anchored in the text.

Chosen here, with numbers of RAR and TextMoE, siblings of the same authors: a stage of labeled
images before; the form of both contrasts, their temperature 0.07 and weights 0.05; 128 dimensions;
features of the decoders' last maps, averaged over a region; no confidence threshold, no ramp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import LABELED, Staged
from semimedref.method.supervised import mask_of
from semimedref.method.teacher_student import add_parameters
from semimedref.method.text_choice import join
from semimedref.model.losses import dice
from semimedref.model.segmenter import Outputs, Segmenter, TextFeatures
from semimedref.model.tevid_recon import TeViDRecon

_LOWEST = -1e4  # of a logit that does not count


class TeViDMethod(Staged):
    """L = L_sup + L_rcs + w_vis L_vis + w_txt L_txt; first labeled images alone.

    Args:
        model: the network with two decoders.
        views: the weak view alone.
        loss: of the network's decoders, if it has none of its own.
        text_dropout: of the student's text encoder.
        momentum: of the teacher at its slowest.
        stages: shares of the epochs, of ``labeled`` and ``all``.
        width: of the contrastive space.
        temperature: of both contrasts.
        weight_visual: of the contrast with the teacher's regions.
        weight_text: of the contrast with the sentence.
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
        width: int,
        temperature: float,
        weight_visual: float,
        weight_text: float,
    ) -> None:
        if not isinstance(model, TeViDRecon):
            raise UserError(
                f"method=tevid_recon trains a decoder for the background, too, which "
                f"{type(model).__name__} has not: choose model=tevid_recon"
            )
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum,
            stages=stages,
        )
        self.heads = ContrastHeads(
            model.image_encoder.widths[0], model.text_encoder.width, width=width
        )
        self.temperature = temperature
        self.weight_visual, self.weight_text = weight_visual, weight_text

    def to(self, device: object) -> Self:
        """Move the projections, too."""
        self.heads.to(device)
        return super().to(device)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The student and the projections."""
        groups = super().parameter_groups()
        add_parameters(groups, self.heads.parameters())
        return groups

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Nothing is mixed."""

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone, or both kinds in one pass."""
        if unlabeled is None or progress.stage == LABELED:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        image = torch.cat([known.image, self.views.normalize(weak.image)])
        text = join([self.student_text(labeled), self.student_text(unlabeled)])
        ours, taught = self.student.outputs(image, text), self._taught(image, labeled, unlabeled)
        first, second = ours.split(len(labeled))
        target, rest = reversed_masks(taught.split(len(labeled))[1])
        loss_sup = self.objective(first, mask_of(known))
        loss_rcs = dice(second.logits, target) + dice(second.extra["background"], rest)
        region = torch.cat([mask_of(known), target])
        visual, anchored = self.contrasts(ours, taught, text, region)
        total = loss_sup + loss_rcs + self.weight_visual * visual + self.weight_text * anchored
        return {
            "loss": total,
            "loss_sup": loss_sup,
            "loss_unsup": loss_rcs,
            "loss_visual": visual,
            "loss_text": anchored,
        }

    @torch.no_grad()
    def _taught(self, image: Tensor, labeled: Batch, unlabeled: Batch) -> Outputs:
        network = self.teacher.network
        texts = [network.encode_text(batch.text) for batch in (labeled, unlabeled)]
        return network.outputs(image, join(texts))

    def contrasts(
        self, ours: Outputs, taught: Outputs, text: TextFeatures, region: Tensor
    ) -> tuple[Tensor, Tensor]:
        """L_vis and L_txt of images whose target is ``region`` (B, 1, H, W)."""
        target, valid = self._embedded(ours, region)
        with torch.no_grad():
            goal, _ = self._embedded(taught, region)
        visual = info_nce(target[0], goal[0], goal[1], self.temperature, valid)
        visual = visual + info_nce(target[1], goal[1], goal[0], self.temperature, valid)
        anchor = self.heads.embed_text(text.tokens)
        anchored = info_nce(anchor, target[0], target[1], self.temperature, valid)
        return visual / 2, anchored

    def _embedded(self, outputs: Outputs, region: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Target and background of each image (B, D), and where (B,) there are both."""
        inside, there = region_mean(outputs.extra["target_map"], region)
        outside, rest = region_mean(outputs.extra["background_map"], 1 - region)
        return (self.heads.embed(inside), self.heads.embed(outside)), there & rest

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """With the projections."""
        return super().weights() | {"heads": self.heads.state_dict()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take all back."""
        super().load_weights(state)
        self.heads.load_state_dict(pick(state, "heads"))


class ContrastHeads(nn.Module):
    """Regions and sentences in one space, of length one."""

    def __init__(self, map_width: int, text_width: int, *, width: int) -> None:
        super().__init__()
        self.region = nn.Sequential(nn.Linear(map_width, width), nn.GELU(), nn.Linear(width, width))
        self.word = nn.Linear(text_width, width)

    def embed(self, features: Tensor) -> Tensor:
        """Features of regions (B, C) -> (B, D)."""
        return F.normalize(self.region(features).float(), dim=-1)

    def embed_text(self, tokens: Tensor) -> Tensor:
        """The mean of projected tokens (B, L, D), padding included -> (B, D)."""
        return F.normalize(self.word(tokens).mean(1).float(), dim=-1)


def reversed_masks(taught: Outputs) -> tuple[Tensor, Tensor]:
    """Labels of either decoder: what the teacher's other one leaves over."""
    target = (taught.extra["background"] < 0).float()  # 1[1 - q_b > 0.5]
    return target, (taught.logits < 0).float()


def region_mean(features: Tensor, region: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (B, C) of a map over a region of any size, and whether (B,) there is one.

    The region (B, 1, H, W) is averaged to the map's size, so that small ones stay.
    """
    share = F.adaptive_avg_pool2d(region, features.shape[-2:])
    size = share.sum((2, 3))
    mean = (features * share).sum((2, 3)) / size.clamp(min=1e-6)
    return mean, size[:, 0] > 0


def info_nce(
    anchor: Tensor, positive: Tensor, negatives: Tensor, temperature: float, valid: Tensor
) -> Tensor:
    """-log e^(a p / tau) / (e^(a p / tau) + sum e^(a n / tau)), a mean over valid anchors.

    Args:
        anchor: (B, D), of length one, as all.
        positive: (B, D), one for each anchor.
        negatives: (B, D), shared by all anchors; those that are not valid do not count.
        temperature: tau.
        valid: (B,) bool.
    """
    own = (anchor * positive).sum(-1, keepdim=True) / temperature
    other = anchor @ negatives.T / temperature
    other = other.masked_fill(~valid[None], _LOWEST)
    each = torch.cat([own, other], 1).logsumexp(1) - own[:, 0]
    return (each * valid).sum() / valid.sum().clamp(min=1)
