"""MMI-UNet's published checkpoint (MICCAI 2024)."""

from __future__ import annotations

from semimedref.model.published.convnext import original_rules
from semimedref.model.published.source import (
    CXR_BERT_OVERRIDES,
    CXR_BERT_RULES,
    CXR_BERT_UNUSED,
    Source,
    logits_of_tokens,
)

_WITHOUT_USE = "level 4's text branch, whose result is thrown away"


def _fusion(level: int) -> tuple[tuple[str, str], ...]:
    theirs, ours = rf"fusion{level}\.", f"fusion.{level - 1}."
    rules = [
        (rf"{theirs}(zoom_in|zoom_out)\.weight", rf"{ours}\1.weight"),
        (rf"{theirs}linear1\.(.+)", rf"{ours}text_in.\1"),
        (rf"{theirs}linear2\.(.+)", rf"{ours}text_out.\1"),
        (rf"{theirs}ln_v\.(.+)", rf"{ours}norm_visual.\1"),
        (rf"{theirs}ln_t\.(.+)", rf"{ours}norm_text.\1"),
    ]
    for short, name in (("v", "visual"), ("t", "text")):
        block, own = rf"{theirs}fusion_{short}\.", f"{ours}{name}."
        rules += [
            (rf"{block}self_attn\.(.+)", rf"{own}self_attention.\1"),
            (rf"{block}multihead_attn\.(.+)", rf"{own}cross_attention.\1"),
            (rf"{block}linear1\.(.+)", rf"{own}ffn.0.\1"),
            (rf"{block}linear2\.(.+)", rf"{own}ffn.3.\1"),
            (rf"{block}(norm[123]\..+)", rf"{own}\1"),
        ]
    return tuple(rules)


def _decode(level: int) -> tuple[tuple[str, str], ...]:
    theirs, ours = rf"decode{level}\.", f"decoder.{4 - level}."
    return (
        (rf"{theirs}up\.(.+)", rf"{ours}up.\1"),
        (rf"{theirs}conv_bn_relu\.0\.(.+)", rf"{ours}conv.\1"),
        (rf"{theirs}conv_bn_relu\.1\.(.+)", rf"{ours}norm.\1"),
    )


SOURCE = Source(
    name="mmi_unet",
    origin="nguyenpbui/MMI-UNet@f5dc3eab5d4cfc148a1377943cbc6192b20edde5",
    overrides=(*CXR_BERT_OVERRIDES, "model=mmi_unet"),
    rules=(
        *original_rules("image_encoder."),
        *CXR_BERT_RULES,
        *(rule for level in (1, 2, 3, 4) for rule in _fusion(level)),
        *(rule for level in (4, 3, 2) for rule in _decode(level)),
        (r"decoder1\.conv_block\.(.+)", r"head.conv.\1"),
        (r"out\.conv\.conv\.(.+)", r"head.out.\1"),
    ),
    unused=(
        *CXR_BERT_UNUSED,
        (r"(norm|head)\.(weight|bias)", "classifier of the trunk"),
        (r"fusion4\.fusion_t\..+", _WITHOUT_USE),
        (r"fusion4\.linear2\..+", _WITHOUT_USE),
    ),
    forward=logits_of_tokens,
)
