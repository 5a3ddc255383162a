"""Vectors as Gaussians: what a token means, and how sure that is (DuSSS and AMVLM)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_RATIO = 4  # hidden width of an MLP over its own


class GaussianHead(nn.Module):
    """Tokens -> mean and log deviation of each, by one attention whose output is split in two.

    Half of what the attention says becomes the mean, which is added to the token, the other half
    the log deviation; an MLP follows each.

    Args:
        width: of tokens; a multiple of the heads and even.
        heads: of the attention.
        dropout: rate in attention and MLPs.
    """

    def __init__(self, width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.entry = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_mean = nn.Linear(width // 2, width)
        self.to_deviation = nn.Linear(width - width // 2, width)
        self.mean_mlp = _mlp(width, dropout)
        self.deviation_mlp = _mlp(width, dropout)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Map (B, N, D) to mean and log deviation, both (B, N, D)."""
        x = self.norm(F.gelu(self.entry(tokens)))
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        dropout = self.dropout if self.training else 0.0
        told = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout).transpose(1, 2).flatten(2)
        first, second = told.split([told.shape[-1] // 2, told.shape[-1] - told.shape[-1] // 2], -1)
        mean = self.to_mean(first) + x
        deviation = self.to_deviation(second)
        return mean + self.mean_mlp(mean), deviation + self.deviation_mlp(deviation)


def wasserstein(
    mean: Tensor, deviation: Tensor, other_mean: Tensor, other_deviation: Tensor
) -> tuple[Tensor, Tensor]:
    """Squared 2-Wasserstein distance of diagonal Gaussians, every pair, and its part of the means.

    W2 = sum (mu_1 - mu_2)^2 + sum (sigma_1 - sigma_2)^2.

    Args:
        mean: (..., N, D).
        deviation: (..., N, D), sigma.
        other_mean: (..., M, D).
        other_deviation: (..., M, D).

    Returns:
        (..., N, M), twice.
    """
    of_means = squared_distance(mean, other_mean)
    return of_means + squared_distance(deviation, other_deviation), of_means


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j|^2 of vectors (..., N, D) and (..., M, D), without a table of N M D numbers."""
    with torch.autocast(a.device.type, enabled=False):  # a small difference of large numbers
        a, b = a.float(), b.float()
        lengths = a.square().sum(-1)[..., :, None] + b.square().sum(-1)[..., None, :]
        return (lengths - 2 * a @ b.mT).clamp(min=0)


def _mlp(width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, _RATIO * width),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(_RATIO * width, width),
        nn.Dropout(dropout),
    )
