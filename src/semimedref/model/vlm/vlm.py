"""The contract of vision-language models: image and sentence as vectors of one space."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from semimedref.errors import UserError
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.reader import Reader, TextFeatures
from semimedref.model.segmenter import check_choice
from semimedref.model.vlm.image_transformer import ImageTransformer

SUMMARIES = ("first", "mean")


@dataclass(frozen=True)
class Embedded:
    """B images or sentences in the common space.

    Attributes:
        whole: (B, D), of length one.
        parts: (B, N, D), patches or words, of length one.
        tokens: (B, 1 + N, D), the whole and the parts before they get their length.
        valid: (B, N) bool: which parts there are.
        local: (B, N, D), the parts as they are compared with wholes, of length one.
    """

    whole: Tensor
    parts: Tensor
    tokens: Tensor
    valid: Tensor
    local: Tensor


@dataclass(frozen=True)
class Slow:
    """What a slow twin says, without gradient."""

    image: Embedded
    text: Embedded


class VLM(Reader, ABC):
    """Two encoders and what a subclass compares them with.

    Args:
        image_encoder: a transformer over patches.
        text_encoder: of the sentences; a frozen one is shared with the slow twin.
        summary: what stands for a sentence: its ``first`` token, or the ``mean`` of its words.
    """

    def __init__(
        self, image_encoder: ImageTransformer, text_encoder: TextEncoder, *, summary: str
    ) -> None:
        super().__init__()
        check_choice("vlm.summary", summary, SUMMARIES)
        self.image_encoder, self.text_encoder = image_encoder, text_encoder
        self.summary = summary

    @abstractmethod
    def embed(self, tokens: Tensor, kind: str, valid: Tensor) -> Embedded:
        """Tokens (B, 1 + N, width) of an encoder, ``image`` or ``text``, in the common space."""

    @abstractmethod
    def losses(self, image: Tensor, text: TextFeatures, slow: VLM, told: Slow) -> dict[str, Tensor]:
        """What a pre-training step minimizes (``loss``), and its parts.

        Args:
            image: normalized (B, 1, H, W).
            text: their sentences.
            slow: the twin that follows this network; its weights get no gradient.
            told: what the twin says about another view and the sentences.
        """

    def see(self, image: Tensor) -> Embedded:
        """Normalized images (B, 1, H, W) in the common space."""
        tokens = self.image_encoder(image)
        return self.embed(tokens, "image", all_there(tokens[:, 1:]))

    def read(self, text: TextFeatures) -> Embedded:
        """Sentences in the common space."""
        return self.embed(self.sentence_tokens(text), "text", text.mask[:, 1:])

    def patch_map(self, image: Tensor) -> Tensor:
        """Patches of normalized images as a map (B, D, h, w), each of length one."""
        parts = self.see(image).parts
        return parts.mT.unflatten(2, (self.image_encoder.grid, self.image_encoder.grid))

    def check_side(self, side: int) -> None:
        """Accept the side that the patches' positions are learned for."""
        self.image_encoder.check_side(side)

    def freeze(self) -> None:
        """Nothing learns any more."""
        self.requires_grad_(False).eval()

    def load_frozen(self, state: Mapping[str, Tensor]) -> None:
        """Take over trained weights, for good."""
        self.load_trainable_state(state)
        self.freeze()

    def sentence_tokens(self, text: TextFeatures) -> Tensor:
        """Tokens (B, L, D) of the text encoder, what stands for the sentence first."""
        if self.summary == "first":
            return text.tokens
        share = text.mask[..., None].to(text.tokens.dtype)
        mean = (text.tokens * share).sum(1, keepdim=True) / share.sum(1, keepdim=True).clamp(min=1)
        return torch.cat([mean, text.tokens[:, 1:]], 1)


def unit(x: Tensor) -> Tensor:
    """Vectors of length one."""
    return F.normalize(x.float(), dim=-1)


def check_heads(width: int, heads: int, *, key: str) -> None:
    """Refuse a width that attention heads do not divide."""
    if heads < 1 or width % heads:
        raise UserError(
            f"{key}={width}: {heads} attention heads do not divide it. Set {key} to a multiple of "
            "vlm.heads"
        )


def all_there(tokens: Tensor) -> Tensor:
    """That every part (B, N) exists, for patches (B, N, D)."""
    return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
