"""The contract of every segmentation network: image and sentence in, logits out."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.intensity import NORMALIZATIONS

Loss = Callable[[Tensor, Tensor], Tensor]  # logits and target (B, 1, H, W) -> one number
LOSSES = ("native", "shared")


@dataclass(frozen=True)
class TextInput:
    """What the host prepares for a list of sentences; all tensors on one device.

    Attributes:
        input_ids: (B, L) int64 token ids, or None when rows of the cached table are used.
        attention_mask: (B, L) bool, True = real token, or None.
        rows: (B,) int64 rows of the text encoder's table of cached features, or None.
    """

    input_ids: Tensor | None
    attention_mask: Tensor | None
    rows: Tensor | None

    def to(self, device: torch.device | str, non_blocking: bool = True) -> "TextInput":
        """Copy to a device."""
        moved = {
            name: tensor.to(device, non_blocking=non_blocking)
            for name, tensor in vars(self).items()
            if tensor is not None
        }
        return replace(self, **moved)


@dataclass(frozen=True)
class TextFeatures:
    """What a text encoder says about B sentences of L tokens.

    Attributes:
        tokens: (B, L, D) last hidden state, padding included.
        mask: (B, L) bool, True = real token.
        pooled: (B, D) mean over tokens (padding included) of hidden states 1, 2 and last.
    """

    tokens: Tensor
    mask: Tensor
    pooled: Tensor


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


class Segmenter(nn.Module, ABC):
    """A network that segments what a sentence refers to.

    A subclass sets `text_encoder` (`semimedref.model.encoders.text.TextEncoder`) and implements
    `forward` and `check_side`. For PACL it has `image_features`, `fused_features` and
    `feature_width`. With outputs or a loss of its own it overrides `outputs` and `objective`.

    Attributes:
        normalization: what is done to gray values in [0, 1]: z_score, imagenet or unit.
        takes_position_token: whether a token of ISPG may follow the words.
    """

    text_encoder: nn.Module
    normalization: str = "z_score"
    takes_position_token: bool = True

    @abstractmethod
    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map normalized gray images (B, 1, H, W) and text to logits (B, 1, H, W)."""

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """All that the network says about normalized images, in one pass."""
        return Outputs(self(image, text))

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The loss of a network's outputs; `loss` is the one that all networks share."""
        return loss(outputs.logits, target)

    def normalized(self, image: Tensor) -> Tensor:
        """Gray images (B, 1, H, W) in [0, 1] as this network takes them."""
        return NORMALIZATIONS[self.normalization](image)

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

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What learns, for the optimizer; a group may have a `weight_decay` of its own."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]

    @abstractmethod
    def check_side(self, side: int) -> None:
        """Raise a UserError that names the nearest possible sides if `side` pixels do not fit."""

    def prepare_text(self, sentences: Sequence[str]) -> TextInput:
        """Tokenize on the host (CPU tensors); with a cached encoder, look up or add table rows.

        Call it in the process that owns the model, outside the device's step.
        """
        return self.text_encoder.prepare(sentences)

    def encode_text(self, text: TextInput, *, dropout: bool = False) -> TextFeatures:
        """Encode prepared text; dropout is applied where asked for here and in the config."""
        return self.text_encoder(text, dropout=dropout)

    def trainable_state(self) -> dict[str, Tensor]:
        """Return the state dict without frozen parts; equal keys for a model and its twin."""
        return {key: value for key, value in self.state_dict().items() if self._is_trained(key)}

    def load_trainable_state(self, state: Mapping[str, Tensor]) -> None:
        """Load what `trainable_state` returned; every key and shape must fit."""
        own = self.trainable_state()
        problems = [f"{key} is missing" for key in own if key not in state]
        problems += [f"{key} is not in this model" for key in state if key not in own]
        problems += [
            f"{key} is {tuple(state[key].shape)} instead of {tuple(own[key].shape)}"
            for key in own
            if key in state and state[key].shape != own[key].shape
        ]
        if problems:
            more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
            raise UserError(
                f"these weights are not of this {type(self).__name__}: "
                f"{'; '.join(problems[:4])}{more}. Expected a checkpoint written with the same "
                "model, image_encoder and text_encoder options"
            )
        self.load_state_dict(dict(state), strict=False)

    def twin(self) -> "Segmenter":
        """Return a copy for the teacher: evaluation mode, no gradient.

        A frozen text encoder is shared (with its cached table), a trainable one is copied.
        """
        shared = {id(self.text_encoder): self.text_encoder} if self.text_encoder.frozen else {}
        twin = copy.deepcopy(self, shared)
        return twin.requires_grad_(False).eval()

    def _is_trained(self, key: str) -> bool:
        return not (self.text_encoder.frozen and key.startswith("text_encoder."))


def check_choice(key: str, found: str, known: Sequence[str]) -> None:
    """Refuse a word that an option does not know."""
    if found not in known:
        raise UserError(f"{key}={found} is unknown: expected {' or '.join(known)}")
