"""``method=teacher_student``: the teacher labels weak views, the student learns strong ones.

With ``augment=semi_medref align=pacl`` this is Semi-MedRef; each row of the paper's ladder is one
choice of these two groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from semimedref.align.alignment import Alignment
from semimedref.augment.plan import Plan
from semimedref.augment.t_patchmix import Mixed
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress, Schedule
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import Taught
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import join
from semimedref.model.segmenter import Outputs, Segmenter, TextFeatures, check_choice

PASSES = ("joint", "apart")


class TeacherStudent(Taught):
    """L = L_sup + lambda_u(t) L_unsup + PACL on both branches (paper, Eq. total).

    Attributes:
        passes: the student sees labeled and strong images in one ``joint`` pass, whose batch norm
            takes them together, or ``apart`` (release).
        unsure: pixels whose probability is nearer to delta than this are left out of L_unsup.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        align: Callable[..., Alignment] | None,
        pseudo_label: Callable[..., Tensor],
        loss: SegmentationLoss,
        schedule: Schedule,
        weight_unlabeled: float,
        mixed_threshold: float,
        momentum_start: float,
        momentum_end: float,
        text_dropout: bool,
        passes: str,
        unsure: float,
    ) -> None:
        super().__init__(
            model=model,
            views=views,
            loss=loss,
            text_dropout=text_dropout,
            momentum=momentum_end,
        )
        self.align = _alignment(align, model)
        self.pseudo_label, self.schedule = pseudo_label, schedule
        self.weight_unlabeled, self.mixed_threshold = weight_unlabeled, mixed_threshold
        self.momentum_start, self.momentum_end = momentum_start, momentum_end
        check_choice("method.passes", passes, PASSES)
        if not 0 <= unsure < 1 or (unsure and getattr(model, "loss", "shared") == "native"):
            raise UserError(
                f"method.unsure={unsure}: expected a number from 0 on and below 1, and 0 with a "
                "network that has a loss of its own (model.loss=shared)"
            )
        self.passes, self.unsure = passes, unsure

    def to(self, device: object) -> Self:
        """Move the projections, too."""
        if self.align is not None:
            self.align.to(device)
        return super().to(device)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The student and, if there is one, the contrastive term's projections."""
        groups = super().parameter_groups()
        if self.align is not None:
            add_parameters(groups, self.align.parameters())
        return groups

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """What the host decides about the strong view; nothing while that branch is off."""
        if self.schedule.skips_unlabeled(progress):
            return None
        return self.views.plan(batch, self.student.prepare_text)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Labeled images alone in burn-in, then both branches in one student pass."""
        known, text = self.views.labeled(labeled), self.student_text(labeled)
        segmented, pairs = [(known.image, text)], [(known.image, text, labeled.position)]
        if unlabeled is None or self.schedule.skips_unlabeled(progress):
            (first,), contrast = self._passes(segmented, pairs, progress)
            losses = {"loss_sup": self.objective(first, mask_of(known))}
            return self._total(losses | contrast, progress)
        weak = self.views.weak(unlabeled)
        probability = self.teach(weak.image, unlabeled)
        strong = self.views.strong(weak, unlabeled, probability)
        words = self.strong_text(unlabeled, strong)
        segmented.append((self.views.normalized(strong.image), words))
        if self.align is not None:
            calm = self.student.normalized(weak.image)
            pairs.append((calm, self.student_text(unlabeled), unlabeled.position))
        (first, second), contrast = self._passes(segmented, pairs, progress)
        losses = {
            "loss_sup": self.objective(first, mask_of(known)),
            "loss_unsup": self.unlabeled_objective(second, strong),
        }
        return self._total(losses | contrast, progress)

    def unlabeled_objective(self, outputs: Outputs, strong: Mixed) -> Tensor:
        """L_unsup: the segmentation loss against the pseudo-masks, on pixels that are sure."""
        if not self.unsure:
            return self.objective(outputs, self.target(strong))
        sure = ((strong.probability - self.pseudo_label.threshold).abs() >= self.unsure).float()
        loss = partial(self.loss, weight=sure)
        return self.student.objective(outputs, self.target(strong), loss)

    def target(self, strong: Mixed) -> Tensor:
        """Pseudo-mask: cut at delta, or at its own threshold where a patch was pasted."""
        plain = self.pseudo_label(strong.probability, threshold=strong.unmixed_threshold)
        mixed = self.pseudo_label(strong.probability, threshold=self.mixed_threshold)
        return torch.where(strong.pasted[:, None, None, None], mixed, plain)

    def _passes(
        self,
        segmented: list[tuple[Tensor, TextFeatures]],
        pairs: list[tuple[Tensor, TextFeatures, Tensor]],
        progress: Progress,
    ) -> tuple[list[Outputs], dict[str, Tensor]]:
        """The student's outputs for images to segment, and the contrastive losses of the pairs.

        The first pair is the first of the segmented images. Where the loss compares the maps that
        segment, that pair needs no pass of its own, and further images join the one pass.
        """
        if self.passes == "apart":
            outputs = [self.student.outputs(image, words) for image, words in segmented]
            return outputs, self._contrast(pairs, progress)
        image = torch.cat([image for image, _ in segmented])
        text = join([words for _, words in segmented])
        segments = self.align is not None and self.align.image_feature == "segmenting"
        if segments and any(self._contrast_weights(progress)[: len(pairs)]):
            more = pairs[1:]
            outputs, maps = self.student.outputs_and_maps(
                torch.cat([image, *(image for image, _, _ in more)]),
                join([text, *(words for _, words, _ in more)]),
                masks=len(image),
            )
            rest = maps[len(image) :].split([len(image) for image, _, _ in more]) if more else []
            contrast = self._compared([maps[: len(pairs[0][0])], *rest], pairs)
        else:
            outputs, contrast = self.student.outputs(image, text), self._contrast(pairs, progress)
        found = []
        for part, _ in segmented[:-1]:
            one, outputs = outputs.split(len(part))
            found.append(one)
        return [*found, outputs], contrast

    def _contrast(
        self, pairs: list[tuple[Tensor, TextFeatures, Tensor]], progress: Progress
    ) -> dict[str, Tensor]:
        """PACL or CLIP on normalized images (B, 1, H, W), in a pass of their own."""
        weights = self._contrast_weights(progress)
        if self.align is None or not any(weights[: len(pairs)]):
            return {}
        images = torch.cat([image for image, _, _ in pairs])
        if self.align.image_feature == "pre_fusion":
            maps = self.student.image_features(images)
        else:
            maps = self.student.fused_features(images, join([text for _, text, _ in pairs]))
        return self._compared(list(maps.split([len(image) for image, _, _ in pairs])), pairs)

    def _compared(
        self, maps: list[Tensor], pairs: list[tuple[Tensor, TextFeatures, Tensor]]
    ) -> dict[str, Tensor]:
        names = ("loss_pacl_sup", "loss_pacl_unsup")
        return {
            name: self.compare(part, text, q)
            for name, part, (_, text, q) in zip(names, maps, pairs, strict=False)
        }

    def compare(self, image_map: Tensor, text: TextFeatures, q: Tensor) -> Tensor:
        """The contrastive loss of image maps and sentences with positions q."""
        return self.align(image_map, text.pooled, q)

    def _contrast_weights(self, progress: Progress) -> tuple[float, float]:
        if self.align is None:
            return 0.0, 0.0
        burn_in = self.schedule.in_burn_in(progress)
        return self.align.weights(in_burn_in=burn_in, lambda_u=self.lambda_u(progress))

    def _total(self, losses: dict[str, Tensor], progress: Progress) -> dict[str, Tensor]:
        """The overall objective (paper, Eq. total)."""
        weights = self.loss_weights(progress)
        total = torch.stack([weights[name] * value for name, value in losses.items()]).sum()
        return {"loss": total} | losses

    def loss_weights(self, progress: Progress) -> dict[str, float]:
        """What each term counts now."""
        labeled, unlabeled = self._contrast_weights(progress)
        return {
            "loss_sup": 1.0,
            "loss_unsup": self.lambda_u(progress),
            "loss_pacl_sup": labeled,
            "loss_pacl_unsup": unlabeled,
        }

    def lambda_u(self, progress: Progress) -> float:
        """Weight of the unlabeled branch: 0 in burn-in, then linear."""
        return self.weight_unlabeled * self.schedule.unlabeled_share(progress)

    def momentum(self, progress: Progress) -> float:
        """EMA momentum m: its start value in burn-in, then linear to its end value."""
        rise = self.momentum_end - self.momentum_start
        return self.momentum_start + rise * self.schedule.momentum_share(progress)

    def values(self, progress: Progress) -> dict[str, float]:
        """lambda_u and m."""
        return {"lambda_u": self.lambda_u(progress), "momentum": self.momentum(progress)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take all back."""
        if self.align is not None:
            pick(state, "align")
        self.load_weights(state)

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Both networks, and the projections if there are any."""
        heads = {} if self.align is None else {"align": self.align.state_dict()}
        return super().weights() | heads

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take them back; masks need no projections, so a file without them is good enough."""
        super().load_weights(state)
        if self.align is not None and "align" in state:
            self.align.load_state_dict(state["align"])


def _alignment(align: Callable[..., Alignment] | None, model: Segmenter) -> Alignment | None:
    if not align:  # align=none is an empty option
        return None
    kind = align.keywords["image_feature"]
    kind = "post_fusion" if kind == "segmenting" else kind
    return align(image_width=model.feature_width(kind), text_width=model.text_encoder.width)


def add_parameters(groups: list[dict[str, Any]], more: Iterable[nn.Parameter]) -> None:
    """Let further parameters learn: with all others, or apart from a network's own groups."""
    if len(groups) == 1:
        groups[0]["params"] += list(more)
    else:
        groups.append({"params": list(more), "lr_scale": 1.0})
