"""What tests of networks share: sizes, features of sentences that nobody wrote, odd weights."""

from __future__ import annotations

import torch
from torch import nn

from semimedref.model.segmenter import TextFeatures


def size(*modules: nn.Module) -> int:
    """How many parameters modules have."""
    return sum(p.numel() for module in modules for p in module.parameters())


def words(batch: int, width: int, tokens: int = 24, device: object = None) -> TextFeatures:
    """Features of a made-up sentence of 15 tokens."""
    return TextFeatures(
        tokens=torch.randn(batch, tokens, width, device=device),
        mask=torch.arange(tokens, device=device).expand(batch, -1) < 15,
        pooled=torch.randn(batch, width, device=device),
    )


def randomize(model: nn.Module) -> None:
    """Give norms, BatchNorm statistics, biases and scales values that hide no slip."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2)
    for key, p in model.named_parameters():
        if p.dim() < 2 and not key.startswith("text_encoder."):
            nn.init.normal_(p, mean=0.5, std=0.5)
