"""TextMoE-Seg's published checkpoint (MICCAI 2025)."""

from __future__ import annotations

import torch
from torch import Tensor

from semimedref.model.published.convnext import transformers_rules
from semimedref.model.published.source import (
    CXR_BERT_OVERRIDES,
    CXR_BERT_RULES,
    CXR_BERT_UNUSED,
    Source,
    read_tokens,
)
from semimedref.model.textmoe_seg import TextMoESeg


def forward(
    network: TextMoESeg,
    image: Tensor,
    input_ids: Tensor,
    attention_mask: Tensor,
    dataset_id: Tensor | int,
) -> Tensor:
    """Logits (B, 3, H, W) of normalized images (B, 1 or 3, H, W), tokens (B, L) and data sets (B,).

    The published network ends in a sigmoid; these are the numbers before it.
    """
    of_each = torch.as_tensor(dataset_id, device=image.device).reshape(-1).expand(len(image))
    return network.channels(image, read_tokens(network, input_ids, attention_mask), of_each)


def _block(index: int) -> tuple[tuple[str, str], ...]:
    """Rules for a block of the decoder; theirs are counted from 1."""
    theirs, ours = rf"block{index + 1}\.", f"decoder.{index}."
    moe, conv = rf"{theirs}moe_conv([12])\.", rf"{ours}conv\1."
    return (
        (rf"{theirs}up\.(.+)", rf"{ours}up.\1"),
        (rf"{theirs}bn([12])\.(.+)", rf"{ours}norm\1.\2"),
        (rf"{moe}scale", rf"{conv}scale"),
        (rf"{moe}text_project\.(.+)", rf"{conv}text.\2"),
        (rf"{moe}gate\.(.+)", rf"{conv}gate.\2"),
        (rf"{moe}experts\.([01])\.cross_attn\.(.+)", rf"{conv}experts.\2.attention.\3"),
        (rf"{moe}experts\.([01])\.(conv|norm)\.(.+)", rf"{conv}experts.\2.\3.\4"),
    )


SOURCE = Source(
    name="textmoe_seg",
    origin="jgfiuuuu/TextMoE@4f9be857b45e0a157e7c01152a2cc39239beaefe",
    overrides=(*CXR_BERT_OVERRIDES, "model=textmoe_seg"),
    rules=(
        *transformers_rules(r"encoder\.model\.", "image_encoder."),
        *CXR_BERT_RULES,
        *(rule for index in range(3) for rule in _block(index)),
        (r"decoder1\.conv_block\.(.+)", r"head.conv.\1"),
        (r"out\.conv\.conv\.(.+)", r"head.out.\1"),
    ),
    unused=(
        *CXR_BERT_UNUSED,
        (r"encoder\.model\.layernorm\.(weight|bias)", "norm before the trunk's classifier"),
        (r".+\.(vis|txt)_pos\.pe", "table of the position code, which is computed"),
    ),
    forward=forward,
    tables=tuple(
        (rf"block{index + 1}\.moe_conv([12])\.{theirs}_pos\.pe", rf"decoder.{index}.conv\1.{ours}")
        for index in range(3)
        for theirs, ours in (
            ("txt", "text_code"),
            (r"experts\.([01])\.vis", r"experts.\2.place_code"),
        )
    ),
)
