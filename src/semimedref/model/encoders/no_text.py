"""What stands in place of a text encoder where nothing is read."""

from collections.abc import Sequence

import torch
from torch import nn

from semimedref.model.segmenter import TextFeatures, TextInput


class NoText(nn.Module):
    """Every sentence is read as no token at all: nothing is loaded, and no word can matter.

    Attributes:
        width: of a token's features.
        frozen: nothing learns.
    """

    width, frozen = 0, True

    def prepare(self, sentences: Sequence[str]) -> TextInput:
        """Keep only how many sentences there are."""
        nothing = torch.zeros(len(sentences), dtype=torch.int64)
        return TextInput(input_ids=None, attention_mask=None, rows=nothing)

    def forward(self, text: TextInput, *, dropout: bool = False) -> TextFeatures:
        """Return features of no tokens: (B, 0, 0), (B, 0) and (B, 0)."""
        del dropout
        tokens = torch.zeros(len(text.rows), 0, 0, device=text.rows.device)
        pooled = tokens.flatten(1)
        return TextFeatures(tokens=tokens, mask=pooled.bool(), pooled=pooled)
