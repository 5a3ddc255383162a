"""GFLOPs of a segmentation network, counted from its configuration: the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def forward_gflops(config: Mapping[str, Any]) -> float:
    """Billions of operations to segment one image with one sentence of full length.

    Convolutions and matrix products count, two operations for a multiplication and an addition;
    the text encoder does not, whose features are the same for every network. Nothing is computed
    and no weights are read.
    """
    import torch
    from omegaconf import OmegaConf
    from torch.utils.flop_counter import FlopCounterMode

    from semimedref.config import build
    from semimedref.model.segmenter import TextFeatures
    from semimedref.results.cost import side_of, without_files

    cfg = OmegaConf.create({**config, "method": without_files(config["method"])})
    with torch.device("meta"):
        network = build(cfg, "method").network("student").eval()
        words, side = network.text_encoder, side_of(config)
        text = TextFeatures(
            tokens=torch.empty(1, words.max_tokens, words.width),
            mask=torch.ones(1, words.max_tokens, dtype=torch.bool),
            pooled=torch.empty(1, words.width),
        )
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            network(torch.empty(1, 1, side, side), text)
    return counter.get_total_flops() / 1e9
