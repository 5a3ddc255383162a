"""What is known of a published checkpoint; every network has a module with its `SOURCE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from semimedref.model.segmenter import Segmenter, TextFeatures, TextInput

# Of CXR-BERT-specialized in a Lightning checkpoint; the networks read the last hidden state alone.
CXR_BERT_RULES = ((r"text_encoder\.model\.bert\.(.+)", r"text_encoder.bert.\1"),)
CXR_BERT_UNUSED = (
    (r"text_encoder\.model\.cls\..+", "head of masked language modeling"),
    (r"text_encoder\.model\.cls_projection_head\..+", "projection of [CLS]"),
    (r"text_encoder\.model\.bert\.embeddings\.position_ids", "counted, not learned"),
    (r"text_encoder\.project_head\..+", "projection whose result is thrown away"),
)
# The published size of networks on ConvNeXt and CXR-BERT, with weights that are then overwritten.
CXR_BERT_OVERRIDES = (
    "scale=paper",
    "image_encoder.weights=random",
    "text_encoder=cxr_bert",
    "text_encoder.weights=random",
    "text_encoder.dropout=false",
    "text_encoder.max_tokens=24",
)
# What training scripts leave in any checkpoint.
_ANYWHERE = (
    (r"(.+\.)?total_(ops|params)", "left by a counter of operations"),
    (r"ema_model\..+", "copy of the network that a teacher keeps; the other one is tested"),
)


@dataclass(frozen=True)
class Source:
    """The state dict that the authors' code writes, and how to call what is made of it.

    Attributes:
        name: the option ``model=`` that is the same network.
        origin: repository and commit whose state dict is meant.
        overrides: the configuration of the published size, for `semimedref.config.compose`.
        rules: (pattern, name): the first pattern that matches a whole published name gives ours.
        unused: (pattern, why): published tensors that the network never uses, or computes.
        tables: (pattern, module): position tables, which are computed here unless they differ; they
            are listed in ``unused`` too.
        forward: calls our network with what the published one takes; returns logits.
    """

    name: str
    origin: str
    overrides: tuple[str, ...]
    rules: tuple[tuple[str, str], ...]
    unused: tuple[tuple[str, str], ...]
    forward: Callable[..., Any]
    tables: tuple[tuple[str, str], ...] = ()

    def ours(self, key: str) -> str | None:
        """Our name of a published tensor, or None if no rule knows it."""
        return _renamed(key, self.rules)

    def table(self, key: str) -> str | None:
        """Our module that has the place of a published position table."""
        return _renamed(key, self.tables)

    def reason(self, key: str) -> str | None:
        """Why a published tensor has no counterpart, or None if it should have one."""
        known = (*self.unused, *_ANYWHERE)
        return next((why for pattern, why in known if re.fullmatch(pattern, key)), None)

    def translated(self, keys: Iterable[str]) -> dict[str, str]:
        """Our names by published ones, for all that have one and are not unused."""
        pairs = ((key, self.ours(key)) for key in keys if self.reason(key) is None)
        return {key: name for key, name in pairs if name is not None}


def _renamed(key: str, rules: Iterable[tuple[str, str]]) -> str | None:
    for pattern, name in rules:
        match = re.fullmatch(pattern, key)
        if match:
            return match.expand(name)
    return None


def logits_of_tokens(
    network: Segmenter, image: Tensor, input_ids: Tensor, attention_mask: Tensor
) -> Tensor:
    """Logits (B, 1, H, W) of normalized images (B, 1 or 3, H, W) and tokens (B, L).

    The published networks end in a sigmoid; these are the numbers before it.
    """
    return network(image, read_tokens(network, input_ids, attention_mask))


def read_tokens(network: Segmenter, input_ids: Tensor, attention_mask: Tensor) -> TextFeatures:
    """What the network's text encoder makes of tokens (B, L)."""
    mask = attention_mask.bool()
    return network.encode_text(TextInput(input_ids=input_ids, attention_mask=mask, rows=None))
