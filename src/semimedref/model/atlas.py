"""Masks that are counted and not learned: what the atlas controls share."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.segmenter import Segmenter, TextFeatures

_TINY = 1e-6  # a mean of 0 or 1 has no logit
_COUNTED = ("labels", "counts", "means")  # a row for each label that the labeled images show


class Atlas(Segmenter):
    """The mean mask of the labeled images for each of their position labels.

    A subclass says what each of these means counts for a sentence (`shares`). The image is not
    looked at, and there is no parameter: `collect` fills the buffers, which are the checkpoint.

    Args:
        text_encoder: gives the label of a sentence as pooled feature.
        image_side: pixels a side of the masks.
        smoothing: standard deviation of a Gaussian over the means, in image sides; 0 for none.
    """

    def __init__(self, text_encoder: nn.Module, *, image_side: int, smoothing: float) -> None:
        super().__init__()
        if smoothing < 0:
            raise UserError(f"model.smoothing={smoothing}: expected 0 or a share of the image side")
        self.text_encoder, self.smoothing = text_encoder, smoothing
        self.register_buffer("labels", torch.zeros(0, text_encoder.width))  # (P, K)
        self.register_buffer("counts", torch.zeros(0))  # (P,) images with that label
        self.register_buffer("means", torch.zeros(0, image_side, image_side))  # (P, H, W)
        self.register_buffer("threshold", torch.tensor(0.5))  # of a mean; set by the method

    def collect(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Count the masks (B, 1, H, W), 0 or 1, of batches of labeled images with labels (B, K)."""
        sums: dict[tuple[float, ...], Tensor] = {}
        counts: dict[tuple[float, ...], int] = {}
        for masks, position in pairs:
            for mask, q in zip(masks, position.tolist(), strict=True):
                label, shape = tuple(q), mask[0].to(torch.float32)
                sums[label] = sums[label] + shape if label in sums else shape
                counts[label] = counts.get(label, 0) + 1
        known = sorted(sums)
        self._make_room(len(known))
        self.labels.copy_(torch.tensor(known).reshape_as(self.labels))
        self.counts.copy_(torch.tensor([counts[label] for label in known]))
        means = torch.stack([sums[label] / counts[label] for label in known])
        self.means.copy_(smoothed(means, sigma=self.smoothing * means.shape[-1]))

    @abstractmethod
    def shares(self, q: Tensor) -> Tensor:
        """Return what each of the P means counts (B, P), in all 1, for labels q (B, K)."""

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return logits (B, 1, H, W) of the mean mask, zero where it is at the threshold.

        At a threshold of 0.5 their sigmoid is the mean itself.
        """
        for side in image.shape[-2:]:
            self.check_side(side)
        if not len(self.labels):
            raise AssertionError("an atlas was asked before it had collected masks")
        mean = self.shares(text.pooled) @ self.means.flatten(1)  # (B, H W)
        logits = mean.logit(eps=_TINY) - self.threshold.logit()
        return logits.unflatten(1, self.means.shape[1:])[:, None]

    def check_side(self, side: int) -> None:
        """Accept the side of the masks alone."""
        if side != self.means.shape[-1]:
            raise UserError(
                f"this atlas has {self.means.shape[-1]} px a side and cannot take images of {side} "
                f"px: set scale.image_side={side} and train again"
            )

    def load_trainable_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what `trainable_state` returned, of however many labels."""
        if all(name in state for name in _COUNTED):
            self._make_room(len(state["labels"]))
        super().load_trainable_state(state)

    def _make_room(self, rows: int) -> None:
        for name in _COUNTED:
            old = getattr(self, name)
            setattr(self, name, old.new_zeros(rows, *old.shape[1:]))


def smoothed(maps: Tensor, *, sigma: float) -> Tensor:
    """Maps (N, H, H) under a Gaussian of `sigma` pixels, which is cut off at the border."""
    if sigma == 0:
        return maps
    at = torch.arange(maps.shape[-1], dtype=maps.dtype)
    weight = (-((at[:, None] - at) ** 2) / (2 * sigma**2)).softmax(dim=1)  # rows add up to 1
    return weight @ maps @ weight.T
