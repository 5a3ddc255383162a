"""A reader that takes nothing from a sentence but the regions that it names."""

from collections.abc import Sequence

import torch
from torch import nn

from semimedref.model.segmenter import TextFeatures, TextInput
from semimedref.text.position import parse
from semimedref.text.vocabulary import vocabulary as look_up


class PositionWords(nn.Module):
    """Sentences -> their position labels q, found by the grammar of the data set's vocabulary.

    Attributes:
        width: K, the number of regions.
        frozen: nothing learns.
    """

    frozen = True

    def __init__(self, vocabulary: str) -> None:
        super().__init__()
        self.vocabulary, self.width = vocabulary, len(look_up(vocabulary).regions)

    def prepare(self, sentences: Sequence[str]) -> TextInput:
        """Parse on the host; a token is a region, its id says whether it is named."""
        labels = [parse(text, self.vocabulary) for text in sentences]
        q = torch.tensor(labels, dtype=torch.int64).reshape(len(labels), self.width)
        return TextInput(input_ids=q, attention_mask=torch.ones_like(q).bool(), rows=None)

    def forward(self, text: TextInput, *, dropout: bool = False) -> TextFeatures:
        """Return q (B, K) as pooled feature, and (B, K, 1) as one token for each region."""
        del dropout
        q = text.input_ids.to(torch.float32)
        return TextFeatures(tokens=q[:, :, None], mask=text.attention_mask, pooled=q)
