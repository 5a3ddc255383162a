"""``method=cps``: two networks label the images for each other (Chen et al., CVPR 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.semi_supervised import SemiSupervised, gaussian_ramp
from semimedref.method.supervised import mask_of
from semimedref.method.text_choice import join
from semimedref.model.segmenter import Outputs, Segmenter


class CrossPseudoSupervision(SemiSupervised):
    """L = L_sup(1) + L_sup(2) + w (L(1, mask of 2) + L(2, mask of 1)), the latter on all images.

    The networks differ in their initial weights alone. The first one is reported. A frozen text
    encoder is shared.

    Args:
        model: any segmentation network.
        second_model: the same once more.
        views: both networks see the same weak view.
        loss: of masks and of pseudo-masks.
        text_dropout: of the text encoders.
        weight_unlabeled: w at its end.
        ramp: share of the training over which w rises, as a Gaussian; 0: none, as published.
    """

    def __init__(
        self,
        *,
        model: Segmenter,
        second_model: Segmenter,
        views: Views,
        loss: SegmentationLoss,
        text_dropout: bool,
        weight_unlabeled: float,
        ramp: float,
    ) -> None:
        super().__init__(model=model, views=views, loss=loss, text_dropout=text_dropout)
        if model.text_encoder.frozen:
            second_model.text_encoder = model.text_encoder
        self.second = second_model
        self.weight_unlabeled, self.ramp = weight_unlabeled, ramp

    def to(self, device: object) -> Self:
        """Move both networks."""
        self.second.to(device)
        return super().to(device)

    def train(self, mode: bool = True) -> Self:
        """Switch both networks."""
        if self.second.training != mode:
            self.second.train(mode)
        return super().train(mode)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Both networks learn."""
        more = [group | {"lr_scale": 1.0} for group in self.second.parameter_groups()]
        return [*super().parameter_groups(), *more]

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Nothing is mixed."""

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """Both networks on both kinds of images, each in one pass."""
        known = self.views.labeled(labeled)
        images, batches = [known.image], [labeled]
        if unlabeled is not None:
            images.append(self.views.normalize(self.views.weak(unlabeled).image))
            batches.append(unlabeled)
        one, two = (self._read(network, images, batches) for network in (self.student, self.second))
        mask, n = mask_of(known), len(labeled)
        loss_sup = self.objective(one.split(n)[0], mask) + self._second(two.split(n)[0], mask)
        loss_unsup = self.objective(one, hard(two)) + self._second(two, hard(one))
        total = loss_sup + self.weight(progress) * loss_unsup
        return {"loss": total, "loss_sup": loss_sup, "loss_unsup": loss_unsup}

    def _read(self, network: Segmenter, images: list[Tensor], batches: list[Batch]) -> Outputs:
        texts = [network.encode_text(batch.text, dropout=self.text_dropout) for batch in batches]
        return network.outputs(torch.cat(images), join(texts))

    def _second(self, outputs: Outputs, target: Tensor) -> Tensor:
        return self.second.objective(outputs, target, self.loss)

    def weight(self, progress: Progress) -> float:
        """W."""
        return self.weight_unlabeled * gaussian_ramp(progress, self.ramp)

    def values(self, progress: Progress) -> dict[str, float]:
        """W."""
        return {"lambda_u": self.weight(progress)}

    def network(self, which: str) -> Segmenter:
        """The first network is the student."""
        if which not in ("student", "second"):
            raise UserError(f"weights={which} is unknown: expected student or second")
        return self.second if which == "second" else self.student

    def state_dict(self) -> dict[str, Any]:
        """Both networks."""
        return self.weights()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take both back."""
        self.load_weights(state)

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Both networks."""
        return super().weights() | {"second": self.second.trainable_state()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take both back."""
        super().load_weights(state)
        self.second.load_trainable_state(pick(state, "second"))


def hard(outputs: Outputs) -> Tensor:
    """A network's mask 1[p > 0.5], as a label for the other."""
    return (outputs.logits.detach() > 0).float()
