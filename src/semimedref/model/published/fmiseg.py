"""FMISeg's published checkpoint (MICCAI 2025)."""

from __future__ import annotations

from torch import Tensor

from semimedref.model.fmiseg import FMISeg
from semimedref.model.published.convnext import transformers_rules
from semimedref.model.published.guide_decoder import (
    CONVNEXT_UNUSED,
    POSITION_UNUSED,
    STAGES,
    head_rules,
    text_rules,
    up_rules,
)
from semimedref.model.published.source import (
    CXR_BERT_OVERRIDES,
    CXR_BERT_RULES,
    CXR_BERT_UNUSED,
    Source,
    read_tokens,
)


def forward(
    network: FMISeg, low: Tensor, high: Tensor, input_ids: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits (B, 1, H, W) of the low and the high branch.

    Args:
        network: ours.
        low: z-scored low frequencies (B, 1 or 3, H, W); the published list has them second.
        high: z-scored high frequencies (B, 1 or 3, H, W); the published list has them first.
        input_ids: (B, L).
        attention_mask: (B, L).
    """
    return network.branches(low, high, read_tokens(network, input_ids, attention_mask))


def _branch(suffix: str, ours: str) -> tuple[tuple[str, str], ...]:
    rules = [
        rule
        for index, stage in enumerate(STAGES)
        for rule in _level(rf"decoder{stage}{suffix}\.", f"{ours}decoder.{index}.")
    ]
    return (*rules, *head_rules(suffix, ours))


def _level(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    layer, gate = rf"{theirs}lffi_layer\.", f"{ours}guide."
    names = {
        r"augment\.norm": "before_self",
        r"augment\.self_attn": "self_attention",
        r"augment\.self_attn_norm": "after_self",
        "norm1": "before_cross",
        "cross_attn1": "visual_attention",
        "cross_attn2": "word_attention",
        "norm2": "visual_norm1",
        "norm3": "word_norm1",
        "norm4": "visual_norm2",
        "norm5": "word_norm2",
        r"fl1\.linear1": "visual_ffn.0",
        r"fl1\.linear2": "visual_ffn.3",
        r"fl2\.linear1": "word_ffn.0",
        r"fl2\.linear2": "word_ffn.3",
        "line": "agreement",
        "cross_attn_norm": "gate_norm",
    }
    return (
        *((rf"{layer}{part}\.(.+)", rf"{gate}{name}.\1") for part, name in names.items()),
        *text_rules(layer, gate),
        *up_rules(theirs, ours),
    )


_CODES = {r"augment\.vis": "self_code", "vis": "visual_code", "txt": "text_code"}

SOURCE = Source(
    name="fmiseg",
    origin="demoyu123/FMISeg@650eeb3c6cb334a5db29269bab46a8b07f679376",
    overrides=(*CXR_BERT_OVERRIDES, "model=fmiseg"),
    rules=(
        *transformers_rules(r"encoder\.model\.", "image_encoder."),
        *transformers_rules(r"encoder2\.model\.", "image_encoder_2."),
        *CXR_BERT_RULES,
        *_branch("", "low."),
        *_branch("_2", "high."),
        (r"ffbi\.cross_attnl\.(.+)", r"exchange.low_attention.\1"),
        (r"ffbi\.cross_attnh\.(.+)", r"exchange.high_attention.\1"),
    ),
    unused=(*CXR_BERT_UNUSED, *CONVNEXT_UNUSED, *POSITION_UNUSED),
    forward=forward,
    tables=tuple(
        (rf"decoder{stage}{suffix}\.lffi_layer\.{theirs}_pos\.pe", f"{ours}.{index}.guide.{code}")
        for suffix, ours in (("", "low.decoder"), ("_2", "high.decoder"))
        for index, stage in enumerate(STAGES)
        for theirs, code in _CODES.items()
    ),
)
