"""The contrastive term of a training step: heads, weights and when they apply."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.align.projection import projection
from semimedref.errors import UserError

IMAGE_FEATURES = ("pre_fusion", "post_fusion", "segmenting")
STARTS = ("burn_in", "first_step")
UNLABELED_VIEWS = ("weak",)


class Alignment(nn.Module, ABC):
    """Projects images and sentences and draws compatible ones together.

    A subclass says which pairs are compatible. The options are partial: the method adds the widths
    of its network, ``align(image_width=..., text_width=...)``.

    Args:
        image_width: channels C of the image map.
        text_width: width D of the pooled text.
        width: d, of the common space.
        image_layers: linear layers of Proj_I.
        text_layers: linear layers of Proj_T.
        temperature: tau.
        weight_labeled: lambda_pacl^sup.
        weight_unlabeled: lambda_pacl^unsup.
        image_feature: the map that the method hands in: ``pre_fusion``, the last level of a
            text-free pass; ``post_fusion``, the last level after text was mixed in, in a pass of
            its own; or ``segmenting``, the same map, of the pass that segments.
        start: the labeled term counts from the end of ``burn_in``, or from the ``first_step``.
        nested: multiply the unlabeled weight by lambda_u.
        unlabeled_view: ``weak``, the weak image with its complete sentence and label.
    """

    def __init__(
        self,
        *,
        image_width: int,
        text_width: int,
        width: int,
        image_layers: int,
        text_layers: int,
        temperature: float,
        weight_labeled: float,
        weight_unlabeled: float,
        image_feature: str,
        start: str,
        nested: bool,
        unlabeled_view: str,
    ) -> None:
        super().__init__()
        _check("image_feature", image_feature, IMAGE_FEATURES)
        _check("start", start, STARTS)
        _check("unlabeled_view", unlabeled_view, UNLABELED_VIEWS)
        if temperature <= 0:
            raise UserError(f"align.temperature={temperature}: expected a number above 0")
        self.temperature = temperature
        self.weight_labeled, self.weight_unlabeled = weight_labeled, weight_unlabeled
        self.image_feature, self.start, self.nested = image_feature, start, nested
        self.image_head = projection(image_width, width, layers=image_layers)
        self.text_head = projection(text_width, width, layers=text_layers)

    @staticmethod
    @abstractmethod
    def affinity(q: Tensor) -> Tensor:
        """A (B, B), symmetric, with ones on the diagonal, from the positions q (B, K)."""

    def forward(self, image_map: Tensor, pooled: Tensor, q: Tensor) -> Tensor:
        """Loss of B pairs: image maps (B, C, h, w), pooled text (B, D), positions q (B, K)."""
        return self.contrast(self.embed_image(image_map), self.embed_text(pooled), q)

    def embed_image(self, image_map: Tensor) -> Tensor:
        """Return v (B, d) = Proj_I(GAP(F)), not normalized."""
        return self.image_head(image_map.mean((2, 3)))

    def embed_text(self, pooled: Tensor) -> Tensor:
        """Return u (B, d) = Proj_T(T), not normalized."""
        return self.text_head(pooled)

    def contrast(self, v: Tensor, u: Tensor, q: Tensor) -> Tensor:
        """Loss of the embeddings v and u (B, d) of B pairs with positions q (B, K)."""
        return contrastive_loss(v, u, self.affinity(q), temperature=self.temperature)

    def weights(self, *, in_burn_in: bool, lambda_u: float) -> tuple[float, float]:
        """What the labeled and the unlabeled loss count now; a loss that counts 0 may be skipped.

        Args:
            in_burn_in: whether the unlabeled branch is still off.
            lambda_u: the present weight of the unlabeled segmentation loss.
        """
        labeled = 0.0 if in_burn_in and self.start == "burn_in" else self.weight_labeled
        unlabeled = self.weight_unlabeled * lambda_u if self.nested else self.weight_unlabeled
        return labeled, 0.0 if in_burn_in else unlabeled


def contrastive_loss(v: Tensor, u: Tensor, affinity: Tensor, *, temperature: float) -> Tensor:
    """The bidirectional loss with graded positives (paper, Eq. itcl_loss_compact).

    Each image looks for its texts and each text for its images; in both directions the affinities
    of a row are divided by their sum. Always in full precision: a cosine in bfloat16, divided by
    tau, is off by 0.05.

    Args:
        v: (B, d) image embeddings, normalized here.
        u: (B, d) text embeddings, normalized here.
        affinity: A (B, B).
        temperature: tau.
    """
    with torch.autocast(v.device.type, enabled=False):
        scores = _unit(v) @ _unit(u).T / temperature  # S (B, B)
        weight = affinity / affinity.sum(1, keepdim=True)
        both = scores.log_softmax(1) + scores.T.log_softmax(1)
        return -0.5 * (weight * both).sum(1).mean()


def _unit(x: Tensor) -> Tensor:
    return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=1)


def _check(key: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise UserError(f"align.{key}={found} is unknown: expected {' or '.join(known)}")
