"""GuideDecoder's published checkpoint (LanGuideMedSeg, MICCAI 2023)."""

from __future__ import annotations

from torch import Tensor

from semimedref.model.published.convnext import transformers_rules
from semimedref.model.published.source import CXR_BERT_RULES, CXR_BERT_UNUSED, Source
from semimedref.model.segmenter import Segmenter, TextInput

STAGES = (16, 8, 4)  # their names of the decoder's levels, coarsest first
CONVNEXT_UNUSED = (
    (r"encoder2?\.model\.layernorm\.(weight|bias)", "norm before the trunk's classifier"),
    (r"encoder2?\.project_head\.(weight|bias)", "projection whose result is thrown away"),
)
POSITION_UNUSED = ((r".+\.(vis|txt)_pos\.pe", "table of the position code, which is computed"),)


def forward(network: Segmenter, image: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Logits (B, 1, H, W) of normalized images (B, 1 or 3, H, W) and tokens (B, L).

    The published network ends in a sigmoid; these are the numbers before it.
    """
    tokens = TextInput(input_ids=input_ids, attention_mask=attention_mask.bool(), rows=None)
    return network(image, network.encode_text(tokens))


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
    overrides=(
        "scale=paper",
        "model=guide_decoder",
        "image_encoder.weights=random",
        "text_encoder=cxr_bert",
        "text_encoder.weights=random",
        "text_encoder.dropout=false",
        "text_encoder.max_tokens=24",
    ),
    rules=(
        *transformers_rules(r"encoder\.model\.", "image_encoder."),
        *CXR_BERT_RULES,
        *(rule for index, stage in enumerate(STAGES) for rule in _level(index, stage)),
        *head_rules("", ""),
    ),
    unused=(*CXR_BERT_UNUSED, *CONVNEXT_UNUSED, *POSITION_UNUSED),
    forward=forward,
    tables=tuple(
        (rf"decoder{stage}\.guide_layer\.{theirs}_pos\.pe", f"decoder.{index}.guide.{ours}_code")
        for index, stage in enumerate(STAGES)
        for theirs, ours in (("vis", "visual"), ("txt", "text"))
    ),
)
