"""GuideDecoder's published checkpoint (LanGuideMedSeg, MICCAI 2023)."""

from __future__ import annotations

from semimedref.model.published.convnext import transformers_rules
from semimedref.model.published.source import (
    CXR_BERT_OVERRIDES,
    CXR_BERT_RULES,
    CXR_BERT_UNUSED,
    Source,
    logits_of_tokens,
)

STAGES = (16, 8, 4)  # their names of the decoder's levels, coarsest first
CONVNEXT_UNUSED = (
    (r"encoder2?\.model\.layernorm\.(weight|bias)", "norm before the trunk's classifier"),
    (r"encoder2?\.project_head\.(weight|bias)", "projection whose result is thrown away"),
)
POSITION_UNUSED = ((r".+\.(vis|txt)_pos\.pe", "table of the position code, which is computed"),)


def text_rules(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    """Rules for the mixing of words in a guide layer."""
    return (
        (rf"{theirs}text_project\.0\.(.+)", rf"{ours}text.mix.\1"),
        (rf"{theirs}text_project\.2\.(.+)", rf"{ours}text.linear.\1"),
        (rf"{theirs}scale", f"{ours}scale"),
    )


def up_rules(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    """Rules for the up block of a level."""
    return (
        (rf"{theirs}decoder\.transp_conv\.conv\.(.+)", rf"{ours}up.up.\1"),
        (rf"{theirs}decoder\.conv_block\.conv([12])\.conv\.(.+)", rf"{ours}up.conv\1.\2"),
        (rf"{theirs}decoder\.conv_block\.norm([12])\.(.+)", rf"{ours}up.norm\1.\2"),
    )


def head_rules(suffix: str, ours: str) -> tuple[tuple[str, str], ...]:
    """Rules for the sub-pixel head whose names end in `suffix`."""
    return (
        (rf"decoder1{suffix}\.conv_block\.(.+)", rf"{ours}head.conv.\1"),
        (rf"out{suffix}\.conv\.conv\.(.+)", rf"{ours}head.out.\1"),
    )


def _level(index: int, stage: int) -> tuple[tuple[str, str], ...]:
    theirs, ours = rf"decoder{stage}\.", f"decoder.{index}."
    layer, guide = rf"{theirs}guide_layer\.", f"{ours}guide."
    return (
        (rf"{layer}self_attn\.(.+)", rf"{guide}self_attention.\1"),
        (rf"{layer}cross_attn\.(.+)", rf"{guide}cross_attention.\1"),
        (rf"{layer}norm1\.(.+)", rf"{guide}before_self.\1"),
        (rf"{layer}self_attn_norm\.(.+)", rf"{guide}after_self.\1"),
        (rf"{layer}norm2\.(.+)", rf"{guide}before_cross.\1"),
        (rf"{layer}cross_attn_norm\.(.+)", rf"{guide}after_cross.\1"),
        *text_rules(layer, guide),
        *up_rules(theirs, ours),
    )


SOURCE = Source(
    name="guide_decoder",
    origin="Junelin2333/LanGuideMedSeg-MICCAI2023@acfd134cf51067a145904d7031b631a6119dbc3f",
    overrides=(*CXR_BERT_OVERRIDES, "model=guide_decoder"),
    rules=(
        *transformers_rules(r"encoder\.model\.", "image_encoder."),
        *CXR_BERT_RULES,
        *(rule for index, stage in enumerate(STAGES) for rule in _level(index, stage)),
        *head_rules("", ""),
    ),
    unused=(*CXR_BERT_UNUSED, *CONVNEXT_UNUSED, *POSITION_UNUSED),
    forward=logits_of_tokens,
    tables=tuple(
        (rf"decoder{stage}\.guide_layer\.{theirs}_pos\.pe", f"decoder.{index}.guide.{ours}_code")
        for index, stage in enumerate(STAGES)
        for theirs, ours in (("vis", "visual"), ("txt", "text"))
    ),
)
