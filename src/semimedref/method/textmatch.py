"""``method=textmatch``: views with other images and words, and prototypes of pixels (MICCAI 2024).

Li et al., "TextMatch: Using Text Prompts to Improve Semi-supervised Medical Image Segmentation".
Neither official code nor the full text was at hand: constants are those of a third-party
reproduction that cites the paper's equation numbers. Its network is ``model=textmatch_seg``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.augment.scale_brightness import ScaleBrightness
from semimedref.augment.views import Views, Words
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import Taught
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import choose
from semimedref.model.losses import batch_dice
from semimedref.model.segmenter import Segmenter, TextInput
from semimedref.model.textmatch_seg import TextMatchSeg

_TINY = 1e-8  # of a length


class TextMatch(Taught):
    """L = L_sup + w_reg L_reg + w_pl L_pl + w_cl L_cl, from the first step on.

    The teacher answers for several views of an unlabeled image, each with another scale, another
    brightness and other words. Its answers, at the old scale, are what the student's logits are
    drawn to (L_reg); their mean probability is a soft label for the mask (L_pl) and for what the
    pixels' embeddings are to resemble: lesion or background of the labeled images (L_cl).

    Args:
        model: the network with an embedding of pixels.
        views: the weak view alone.
        loss: of labeled images, if the network has none of its own.
        text_dropout: of the student's text encoder.
        momentum: of the teacher at its slowest.
        perturb: image of a teacher's view.
        words: sentence of a teacher's view.
        variants: forms of a sentence where the text encoder keeps every sentence that it has
            read; without such a table there is no limit.
        teacher_views: N - 1.
        weight_reg: of the squared difference of logits.
        weight_pl: of the Dice with the pseudo-label.
        weight_cl: of the contrast with the prototypes.
        temperature: tau of the contrast.
        prototype_momentum: memory of a prototype.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        momentum: float,
        perturb: ScaleBrightness,
        words: Words,
        variants: int,
        teacher_views: int,
        weight_reg: float,
        weight_pl: float,
        weight_cl: float,
        temperature: float,
        prototype_momentum: float,
    ) -> None:
        if not isinstance(model, TextMatchSeg):
            raise UserError(
                f"method=textmatch compares embeddings of pixels, which {type(model).__name__} "
                "has not: choose model=textmatch_seg"
            )
        super().__init__(
            model=model, views=views, loss=loss, text_dropout=text_dropout, momentum=momentum
        )
        _check(variants, teacher_views, temperature, prototype_momentum)
        self.perturb, self.words, self.teacher_views = perturb, words, teacher_views
        self.weight_reg, self.weight_pl, self.weight_cl = weight_reg, weight_pl, weight_cl
        self.temperature, self.prototype_momentum = temperature, prototype_momentum
        self.forms = None
        if model.text_encoder.cache:  # a new sentence costs a pass of the text encoder
            self.forms = np.random.default_rng(0).random((variants, words.draws))
        self.draws = views.draws + teacher_views * (perturb.draws + words.draws)
        self.prototypes = torch.zeros(2, model.embedding.out_channels)  # lesion, background
        self.started = torch.zeros(2, 1)  # 1 when there is one

    def to(self, device: object) -> Self:
        """Move the prototypes, too."""
        self.prototypes, self.started = self.prototypes.to(device), self.started.to(device)
        return super().to(device)

    def plan(self, batch: Batch, progress: Progress) -> TextInput:
        """The sentences of all views, one view after the other."""
        del progress
        _, numbers = self._numbers(batch.uniform)
        return self.student.prepare_text([
            self.reworded(sentence, u)
            for view in numbers.numpy()
            for sentence, u in zip(batch.sentences, view, strict=True)
        ])  # fmt: skip

    def reworded(self, sentence: str, u: np.ndarray) -> str:
        """The sentence of a view; if there are few forms, the first number says which."""
        if self.forms is not None:
            u = self.forms[int(u[0] * len(self.forms))]
        return self.words(sentence, u)

    def rehearsal(self, plan: Plan, side: int) -> TextInput:
        """A sentence for every view."""
        del side
        text = choose(plan.texts, torch.zeros_like(plan.donor), plan.candidates)
        several = {
            name: value.repeat(self.teacher_views, *[1] * (value.dim() - 1))
            for name, value in vars(text).items()
            if value is not None
        }
        return TextInput(**{**vars(text), **several})

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Both kinds of images in one pass of the student; all views in one of the teacher."""
        if unlabeled is None:
            return super().step(labeled, None, progress)
        known, weak = self.views.labeled(labeled), self.views.weak(unlabeled)
        answers, seen = self.answers(weak.image, unlabeled)
        pseudo = pseudo_label(answers, seen)
        others = [(self.views.normalize(weak.image), self.student_text(unlabeled))]
        first, second = self.pass_over(known, self.student_text(labeled), others)
        self.remember(first.extra["embedding"], mask_of(known))
        loss_sup = self.objective(first, mask_of(known))
        loss_reg = agreement(second.logits, answers, seen)
        loss_pl = batch_dice(second.logits, pseudo)
        similar = similarity(second.extra["embedding"], self.prototypes, pseudo.shape[-2:])
        loss_cl = soft_entropy(similar / self.temperature, pseudo)
        reg, pl, cl = self.weight_reg, self.weight_pl, self.weight_cl
        return {
            "loss": loss_sup + reg * loss_reg + pl * loss_pl + cl * loss_cl,
            "loss_sup": loss_sup,
            "loss_reg": loss_reg,
            "loss_pl": loss_pl,
            "loss_cl": loss_cl,
        }

    @torch.no_grad()
    def answers(self, image: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """The teacher's logits for each view, and what it has seen, at the old scale (V, B, ...).

        Args:
            image: the weak view (B, 1, H, W) in [0, 1].
            batch: whose plan are the sentences of all views.
        """
        network, views = self.teacher.network, self.teacher_views
        numbers, _ = self._numbers(batch.uniform)
        u = numbers.flatten(0, 1)
        several = self.perturb(image.repeat(views, 1, 1, 1), u)
        logits = network(network.normalized(several), network.encode_text(batch.plan))
        back, seen = self.perturb.undo(logits.float(), u)
        return back.unflatten(0, (views, -1)), seen.unflatten(0, (views, -1))

    @torch.no_grad()
    def remember(self, embedding: Tensor, mask: Tensor) -> None:
        """Prototypes follow the mean embedding (B, D, h, w) under masks (B, 1, H, W) and beside.

        The first mean is taken as it is; a class without a pixel changes nothing.
        """
        pixels = resized(embedding.float(), mask.shape[-2:])
        inside = (pixels * mask).sum((0, 2, 3))
        sums = torch.stack([inside, pixels.sum((0, 2, 3)) - inside])
        size = torch.stack([mask.sum(), (1 - mask).sum()])[:, None]
        memory = torch.where(size > 0, self.prototype_momentum * self.started, 1.0)
        self.prototypes = torch.lerp(sums / size.clamp(min=1), self.prototypes, memory)
        self.started = torch.maximum(self.started, (size > 0).to(self.started.dtype))

    def _numbers(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of each view (V, B, n): of its image, and of its words."""
        own = uniform[:, self.views.draws :].unflatten(1, (self.teacher_views, -1)).transpose(0, 1)
        return own.split((self.perturb.draws, self.words.draws), dim=-1)

    def state_dict(self) -> dict[str, Any]:
        """With the prototypes."""
        memory = {"mean": self.prototypes, "started": self.started}
        return super().state_dict() | {"prototypes": memory}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take all back."""
        super().load_state_dict(state)
        memory, device = pick(state, "prototypes"), self.prototypes.device
        self.prototypes, self.started = (memory[k].to(device) for k in ("mean", "started"))


def resized(x: Tensor, size: tuple[int, ...]) -> Tensor:
    """Bilinear."""
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def pseudo_label(answers: Tensor, seen: Tensor) -> Tensor:
    """Mean probability (B, 1, H, W) of the views (V, B, 1, H, W) that have seen a pixel.

    Where none has, all count with what they repeat there.
    """
    p, often = answers.sigmoid(), seen.sum(0)
    return torch.where(often > 0, (seen * p).sum(0) / often.clamp(min=1), p.mean(0))


def agreement(logits: Tensor, answers: Tensor, seen: Tensor) -> Tensor:
    """Squared difference of logits to those of each view, a mean over seen pixels, then views."""
    squared = (logits.float() - answers).square()
    sizes = seen.sum((1, 2, 3, 4))
    return ((seen * squared).sum((1, 2, 3, 4)) / sizes.clamp(min=1)).mean()


def similarity(embedding: Tensor, prototypes: Tensor, size: tuple[int, ...]) -> Tensor:
    """Cosine (B, K, H, W) of enlarged embeddings (B, D, h, w) with prototypes (K, D).

    Products with a prototype are enlarged instead of embeddings: both are linear. Lengths are not.
    """
    e, p = embedding.float(), F.normalize(prototypes, dim=1)
    products = (e[:, None] * p[:, :, None, None]).sum(2)  # (B, K, h, w)
    lengths = resized(e, size).square().sum(1, keepdim=True).clamp(min=_TINY**2).sqrt()
    return resized(products, size) / lengths


def soft_entropy(scores: Tensor, probability: Tensor) -> Tensor:
    """Cross-entropy of lesion and background (B, 2, H, W) with a soft label (B, 1, H, W)."""
    inside, outside = scores.log_softmax(1).split(1, dim=1)
    return -(probability * inside + (1 - probability) * outside).mean()


def _check(variants: int, teacher_views: int, temperature: float, memory: float) -> None:
    for key, found in (("variants", variants), ("teacher_views", teacher_views)):
        if found < 1:
            raise UserError(f"method.{key}={found}: expected 1 or more; set method.{key}=3")
    if temperature <= 0:
        raise UserError(
            f"method.temperature={temperature}: expected a number above 0; set "
            "method.temperature=0.9"
        )
    if not 0 <= memory < 1:
        raise UserError(
            f"method.prototype_momentum={memory}: expected a number from 0 to below 1; set "
            "method.prototype_momentum=0.9"
        )
