"""A very small text encoder for tests: no files, no pre-training, starts at once."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from semimedref.model.blocks import Attention, feed_forward
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.encoders.tokenizer import WordHash, knows_unk_pos
from semimedref.model.encoders.unk_pos import EmbeddingWithUnkPos


class TinyText(TextEncoder):
    """A post-norm transformer over hashed words, with random weights."""

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        ffn_width: int,
        vocabulary: int,
        dropout_rate: float,
        unk_pos: str,
        max_tokens: int,
        frozen: bool,
        dropout: bool,
        cache: bool,
        center_on: Sequence[str] | None,
        random_seed: int,
    ) -> None:
        """Build the encoder; the arguments are those of `BertText`."""
        tokenizer = WordHash(vocabulary, unk_pos=unk_pos)
        super().__init__(
            width=width,
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            frozen=frozen,
            dropout=dropout,
            cache=cache,
            center_on=center_on,
        )
        # Frozen weights are in no checkpoint: they must come back the same in every process.
        with torch.random.fork_rng(devices=[]) if frozen else nullcontext():
            if frozen:
                torch.manual_seed(random_seed)
            self.words = nn.Embedding(vocabulary, width)
            self.places = nn.Embedding(max_tokens, width)
            self.norm = nn.LayerNorm(width)
            self.layers = nn.ModuleList(
                _Layer(width, heads=heads, ffn_width=ffn_width, dropout=dropout_rate)
                for _ in range(layers)
            )
        if knows_unk_pos(unk_pos):
            self.words = EmbeddingWithUnkPos(self.words, unk=tokenizer.unk)
        self._freeze_if_asked()
        self._learn_center()

    def hidden_states(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return hidden states 1, 2 and last."""
        x = self.norm(self.words(input_ids) + self.places.weight[: input_ids.shape[1]])
        states = []
        for layer in self.layers:
            x = layer(x, mask)
            states.append(x)
        return states[0], states[min(1, len(states) - 1)], states[-1]


class _Layer(nn.Module):
    def __init__(self, width: int, *, heads: int, ffn_width: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads=heads, dropout=dropout)
        self.ffn = feed_forward(width, ffn_width, dropout=dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, x, mask))
        return self.norm2(x + self.ffn(x))
