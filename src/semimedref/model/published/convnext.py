"""Names of ConvNeXt's tensors in published networks: transformers' and the original ones."""

from __future__ import annotations

_PARTS = {
    "transformers": {
        r"dwconv\.": "conv_dw.",
        r"layernorm\.": "norm.",
        r"pwconv1\.": "mlp.fc1.",
        r"pwconv2\.": "mlp.fc2.",
        "layer_scale_parameter": "gamma",
    },
    "original": {
        r"dwconv\.": "conv_dw.",
        r"norm\.": "norm.",
        r"pwconv1\.": "mlp.fc1.",
        r"pwconv2\.": "mlp.fc2.",
        "gamma": "gamma",
    },
}


def transformers_rules(theirs: str, ours: str) -> tuple[tuple[str, str], ...]:
    """Rules for a trunk under the pattern `theirs`, which is our `ours` (an ImageEncoder)."""
    rules = [
        (rf"{theirs}embeddings\.patch_embeddings\.(.+)", rf"{ours}levels.0.0.0.\1"),
        (rf"{theirs}embeddings\.layernorm\.(.+)", rf"{ours}levels.0.0.1.\1"),
        (
            rf"{theirs}encoder\.stages\.([1-3])\.downsampling_layer\.(.+)",
            rf"{ours}levels.\1.downsample.\2",
        ),
    ]
    stage = rf"{theirs}encoder\.stages\."
    return (*rules, *_blocks(stage, r"\.layers\.", ours, _PARTS["transformers"]))


def original_rules(ours: str) -> tuple[tuple[str, str], ...]:
    """Rules for a trunk with the names of its first release."""
    rules = [
        (r"downsample_layers\.0\.(.+)", rf"{ours}levels.0.0.\1"),
        (r"downsample_layers\.([1-3])\.(.+)", rf"{ours}levels.\1.downsample.\2"),
    ]
    return (*rules, *_blocks(r"stages\.", r"\.", ours, _PARTS["original"]))


def _blocks(stage: str, layer: str, ours: str, parts: dict[str, str]) -> list[tuple[str, str]]:
    """Level 0 of ours is stem and stage 0; the others are their stage."""
    rules = []
    for theirs, name in parts.items():
        rules += [
            (rf"{stage}0{layer}(\d+)\.{theirs}(.*)", rf"{ours}levels.0.1.blocks.\1.{name}\2"),
            (rf"{stage}([1-3]){layer}(\d+)\.{theirs}(.*)", rf"{ours}levels.\1.blocks.\2.{name}\3"),
        ]
    return rules
