"""Batches of sentences: one of several candidates, and several batches as one."""

from __future__ import annotations

import torch
from torch import Tensor

from semimedref.model.segmenter import TextFeatures, TextInput


def choose(texts: TextInput, choice: Tensor, candidates: int) -> TextInput:
    """One of the C candidate sentences of each sample, by index (B,), on the device."""

    def take(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        options = x.reshape(len(choice), candidates, *x.shape[1:])
        index = choice.reshape(-1, *[1] * (options.dim() - 1)).expand(-1, 1, *options.shape[2:])
        return options.gather(1, index)[:, 0]

    return TextInput(take(texts.input_ids), take(texts.attention_mask), take(texts.rows))


def join(texts: list[TextFeatures]) -> TextFeatures:
    """Several batches of sentences as one."""
    return TextFeatures(
        tokens=torch.cat([t.tokens for t in texts]),
        mask=torch.cat([t.mask for t in texts]),
        pooled=torch.cat([t.pooled for t in texts]),
    )
