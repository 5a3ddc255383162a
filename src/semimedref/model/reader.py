"""What every network that reads sentences shares: text in, weights out, a twin for a teacher."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.intensity import NORMALIZATIONS


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

    def first(self, number: int) -> Self:
        """Those of the first sentences."""
        part = {name: getattr(self, name)[:number] for name in ("tokens", "mask", "pooled")}
        return replace(self, **part)


class Reader(nn.Module):
    """A network with a text encoder (`semimedref.model.encoders.text.TextEncoder`).

    Attributes:
        text_encoder: what reads.
        normalization: what is done to gray values in [0, 1]: z_score, imagenet or unit.
    """

    text_encoder: nn.Module
    normalization: str = "z_score"

    def normalized(self, image: Tensor) -> Tensor:
        """Gray images (B, 1, H, W) in [0, 1] as this network takes them."""
        return NORMALIZATIONS[self.normalization](image)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What learns, for the optimizer; a group may have a `weight_decay` of its own."""
        return [{"params": [p for p in self.parameters() if p.requires_grad]}]

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

    def twin(self) -> Self:
        """Return a copy for the teacher: evaluation mode, no gradient.

        A frozen text encoder is shared (with its cached table), a trainable one is copied.
        """
        shared = {id(self.text_encoder): self.text_encoder} if self.text_encoder.frozen else {}
        twin = copy.deepcopy(self, shared)
        return twin.requires_grad_(False).eval()

    def _is_trained(self, key: str) -> bool:
        return not (self.text_encoder.frozen and key.startswith("text_encoder."))
