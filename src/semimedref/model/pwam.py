"""How LAVT mixes words into a map: pixel-word attention (PWAM) and the gate behind it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.model.swin import initialize

_HIDDEN = -1e4  # score of a padded word
_EPS = 1e-5


class PWAM(nn.Module):
    """Every place reads the words, and what it reads is multiplied with what it shows."""

    def __init__(self, width: int, text_width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.visual = Pointwise(width, width)
        self.query = Pointwise(width, width)
        self.key, self.value = Pointwise(text_width, width), Pointwise(text_width, width)
        self.out = Pointwise(width, width)
        self.joint = Pointwise(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        """Say what the words add at each place, (B, N, C).

        Args:
            x: places (B, N, C).
            words: (B, L, D).
            mask: (B, L), True = real word.
        """
        padded = ~mask[..., None]
        q = self._split(_over_places(self.query(x)))
        k = self._split(self.key(words).masked_fill(padded, 0))
        v = self._split(self.value(words).masked_fill(padded, 0))
        hidden = q.new_zeros(mask.shape).masked_fill(~mask, _HIDDEN)[:, None, None]
        # With several heads, too, scores are divided by the root of the whole width.
        read = F.scaled_dot_product_attention(q, k, v, hidden, scale=x.shape[-1] ** -0.5)
        read = _over_places(self.out(read.transpose(1, 2).flatten(2)))
        shown = self.dropout(F.gelu(self.visual(x)))
        return self.dropout(F.gelu(self.joint(shown * read)))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, C / heads)


class Pointwise(nn.Conv1d):
    """A convolution of width 1, as published, on tokens (B, N, C): there it is a Linear."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, N, inputs) to (B, N, outputs)."""
        return F.linear(x, self.weight.squeeze(-1), self.bias)


class LanguageGate(nn.Sequential):
    """How much of what was read goes on into the trunk, for each place and channel."""

    def __init__(self, width: int) -> None:
        layers = (nn.Linear(width, width, bias=False) for _ in range(2))
        super().__init__(next(layers), nn.ReLU(), next(layers), nn.Tanh())
        self.apply(initialize)

    def forward(self, x: Tensor) -> Tensor:
        """Return the part of x (B, N, C) that goes on."""
        return super().forward(x) * x


def _over_places(x: Tensor) -> Tensor:
    """Instance norm of (B, N, C): each channel of each image over its places."""
    return F.instance_norm(x.mT, eps=_EPS).mT
