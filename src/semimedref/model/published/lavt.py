"""LAVT's published checkpoint (CVPR 2022): Swin-T with window 7, BERT inside (``lavt_one``)."""

from __future__ import annotations

from torch import Tensor

from semimedref.model.published.source import Source, read_tokens
from semimedref.model.segmenter import Segmenter


def forward(network: Segmenter, image: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Logits (B, 2, H, W) of normalized images (B, 3, H, W) and tokens (B, L).

    The first channel is the background.
    """
    return network.outputs(image, read_tokens(network, input_ids, attention_mask)).extra["classes"]


_STAGE = r"backbone\.layers\.([0-3])\."
_FUSION = {
    r"vis_project\.0": "visual",
    r"image_lang_att\.f_query\.0": "query",
    r"image_lang_att\.f_key\.0": "key",
    r"image_lang_att\.f_value\.0": "value",
    r"image_lang_att\.W\.0": "out",
    r"project_mm\.0": "joint",
}
# A stage's merging is theirs at its end and ours at the beginning of the next level.
_MERGING = tuple(
    (rf"backbone\.layers\.{stage}\.downsample\.(.+)", rf"image_encoder.levels.{stage + 1}.down.\1")
    for stage in range(3)
)
# From the last map up: convolution and norm 1, convolution and norm 2 of our sequence of six.
_DECODER = tuple(
    (rf"classifier\.{kind}{half}_{level}\.(.+)", rf"decoder.blocks.{4 - level}.{place}.\1")
    for level in (4, 3, 2)
    for kind, half, place in (("conv", 1, 0), ("bn", 1, 1), ("conv", 2, 3), ("bn", 2, 4))
)

SOURCE = Source(
    name="lavt",
    origin="yz93/LAVT-RIS@1da0af9f21b637c0cae9ea1363d2dd9b40e19628",
    overrides=(
        "scale=paper",
        "model=lavt",
        "image_encoder=swin_tiny",
        "image_encoder.weights=random",
        "text_encoder=bert",
        "text_encoder.weights=random",
        "text_encoder.dropout=false",
    ),
    rules=(
        (r"backbone\.patch_embed\.(.+)", r"image_encoder.levels.0.down.\1"),
        (rf"{_STAGE}(blocks\..+)", r"image_encoder.levels.\1.\2"),
        *_MERGING,
        *(
            (rf"{_STAGE}fusion\.{theirs}\.(.+)", rf"fusion.\1.{o}.\2")
            for theirs, o in _FUSION.items()
        ),
        (rf"{_STAGE}res_gate\.(.+)", r"gates.\1.\2"),
        (r"backbone\.norm([0-3])\.(.+)", r"norms.\1.\2"),
        *_DECODER,
        (r"classifier\.conv1_1\.(.+)", r"decoder.head.\1"),
        (r"text_encoder\.(.+)", r"text_encoder.bert.\1"),
    ),
    unused=(
        (rf"{_STAGE}blocks\.\d+\.attn\.relative_position_index", "counted, not learned"),
        (r"backbone\.layers\.3\.res_gate\..+", "the last gate, whose result goes nowhere"),
        (r"text_encoder\.embeddings\.position_ids", "counted, not learned"),
        (r"text_encoder\.pooler\..+", "the network reads the last hidden state alone"),
    ),
    forward=forward,
    tables=(
        (
            rf"{_STAGE}blocks\.(\d+)\.attn\.relative_position_index",
            r"image_encoder.levels.\1.blocks.\2.attn",
        ),
    ),
)
