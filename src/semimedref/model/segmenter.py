"""The contract of every segmentation network: image and sentence in, logits out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.reader import Reader, TextFeatures
from semimedref.model.reader import TextInput as TextInput

Loss = Callable[[Tensor, Tensor], Tensor]  # logits and target (B, 1, H, W) -> one number
LOSSES = ("native", "shared")


@dataclass(frozen=True)
class Outputs:
    """All that a network says about B images.

    Attributes:
        logits: (B, 1, H, W), what is predicted.
        extra: further outputs that only the network's own loss reads; the first axis is B.
    """

    logits: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def split(self, at: int) -> tuple["Outputs", "Outputs"]:
        """The first `at` images, and the others."""
        first = {name: value[:at] for name, value in self.extra.items()}
        second = {name: value[at:] for name, value in self.extra.items()}
        return Outputs(self.logits[:at], first), Outputs(self.logits[at:], second)


class Segmenter(Reader, ABC):
    """A network that segments what a sentence refers to.

    A subclass sets `text_encoder` (`semimedref.model.encoders.text.TextEncoder`) and implements
    `forward` and `check_side`. For PACL it has `image_features`, `fused_features` and
    `feature_width`. With outputs or a loss of its own it overrides `outputs` and `objective`.

    Attributes:
        takes_position_token: whether a token of ISPG may follow the words.
    """

    takes_position_token: bool = True

    @abstractmethod
    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map normalized gray images (B, 1, H, W) and text to logits (B, 1, H, W)."""

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """All that the network says about normalized images, in one pass."""
        return Outputs(self(image, text))

    def outputs_and_maps(
        self, image: Tensor, text: TextFeatures, *, masks: int
    ) -> tuple[Outputs, Tensor]:
        """Outputs for the first `masks` images, and the map of `fused_features` for all of them.

        A network that can give both in one pass overrides this.
        """
        return self.outputs(image[:masks], text.first(masks)), self.fused_features(image, text)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The loss of a network's outputs; `loss` is the one that all networks share."""
        return loss(outputs.logits, target)

    def feature_width(self, kind: str) -> int:
        """Channels of `image_features` (``pre_fusion``) or `fused_features` (``post_fusion``)."""
        del kind
        return self.image_encoder.widths[-1]

    def image_features(self, image: Tensor) -> Tensor:
        """The deepest map (B, C, h, w) before any word has been mixed in."""
        raise UserError(f"{type(self).__name__} has no image features to compare: set align=none")

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """The deepest map (B, C, h, w) with words mixed in."""
        raise UserError(f"{type(self).__name__} has no fused features to compare: set align=none")

    def encoder_parts(self) -> list[nn.Module]:
        """Parts whose outputs, maps (B, C, h, w) or lists of them, are the image's features."""
        return [self.image_encoder]

    @contextmanager
    def dropped_features(self, probability: float) -> Iterator[None]:
        """Run passes in which whole channels of the image's features are dropped (UniMatch)."""

        def drop(part: nn.Module, inputs: object, output: Any) -> Any:  # noqa: ANN401
            if isinstance(output, Tensor):
                return F.dropout2d(output, probability, training=True)
            return [F.dropout2d(x, probability, training=True) for x in output]

        hooks = [part.register_forward_hook(drop) for part in self.encoder_parts()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @abstractmethod
    def check_side(self, side: int) -> None:
        """Raise a UserError that names the nearest possible sides if `side` pixels do not fit."""


def check_choice(key: str, found: str, known: Sequence[str]) -> None:
    """Refuse a word that an option does not know."""
    if found not in known:
        raise UserError(f"{key}={found} is unknown: expected {' or '.join(known)}")
