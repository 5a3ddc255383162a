"""LViT's published checkpoint (TMI 2024); its words come from a BERT outside of it."""

from __future__ import annotations

from torch import Tensor

from semimedref.model.published.source import Source
from semimedref.model.segmenter import Segmenter, TextFeatures

_LEVELS = (1, 2, 3, 4)
# Names of the four ViTs of a branch, from the finest on.
_VITS = ("", "1", "2", "3")


def forward(network: Segmenter, image: Tensor, text: Tensor) -> Tensor:
    """Logits (B, 1, 224, 224) of images (B, 1 or 3, 224, 224) and word vectors (B, 10, 768).

    Images are in [0, 1]. The published network ends in a sigmoid; these are the numbers before it.
    """
    image, text = image.float(), text.float()
    there = text.new_ones(text.shape[:2]).bool()
    return network(image, TextFeatures(tokens=text, mask=there, pooled=text.mean(1)))


def _vit(branch: str, level: int) -> tuple[tuple[str, str], ...]:
    block = rf"{branch}Vit{_VITS[level]}\.Encoder_blocks\.0\."
    ours = f"{branch}_blocks.{level}."
    return (
        (rf"{block}(norm[12]\..+)", rf"{ours}\1"),
        (rf"{block}attn\.qkv\.(.+)", rf"{ours}attention.in_proj_\1"),
        (rf"{block}attn\.proj\.(.+)", rf"{ours}attention.out_proj.\1"),
        (rf"{block}mlp\.fc1\.(.+)", rf"{ours}mlp.0.\1"),
        (rf"{block}mlp\.fc2\.(.+)", rf"{ours}mlp.3.\1"),
    )


def _embedding(level: int) -> tuple[tuple[str, str], ...]:
    theirs = rf"downVit{_VITS[level]}\.embeddings\."
    return (
        (rf"{theirs}position_embeddings", f"embeddings.{level}.position"),
        (rf"{theirs}patch_embeddings\.(.+)", rf"embeddings.{level}.conv.\1"),
    )


def _up(level: int) -> tuple[tuple[str, str], ...]:
    theirs, ours = rf"up{level}\.", f"decoder.{4 - level}."
    return (
        (rf"{theirs}pixModule\.conv_avg\.(.+)", rf"{ours}attention.mean.\1"),
        (rf"{theirs}pixModule\.conv_max\.(.+)", rf"{ours}attention.max.\1"),
        (rf"{theirs}pixModule\.bottleneck\.(.+)", rf"{ours}attention.mlp.\1"),
        (rf"{theirs}nConvs\.(.+)", rf"{ours}convs.\1"),
    )


SOURCE = Source(
    name="lvit",
    origin="HUANGLIZI/LViT@a9b0b412415928d9c6a09459f66b263ab1a2bf06",
    overrides=(
        "scale=paper",
        "model=lvit",
        "text_encoder=bert_words",
        "text_encoder.weights=random",
    ),
    rules=(
        (r"inc\.(.+)", r"stem.\1"),
        *((rf"down{i}\.nConvs\.(.+)", rf"down.{i - 1}.\1") for i in _LEVELS),
        *((rf"text_module{i}\.(.+)", rf"text.{4 - i}.\1") for i in _LEVELS),
        (r"downVit\.CTBN3\.(.+)", r"text_tokens.\1"),
        *(rule for level in range(4) for rule in _embedding(level)),
        *(rule for level in range(4) for rule in (*_vit("down", level), *_vit("up", level))),
        *((rf"downVit{i}\.CTBN\.(.+)", rf"down_convs.{i - 1}.\1") for i in (1, 2, 3)),
        *((rf"upVit{_VITS[i]}\.CTBN2\.(.+)", rf"up_convs.{i}.\1") for i in (0, 1, 2)),
        *((rf"reconstruct{i}\.(.+)", rf"reconstruct.{i - 1}.\1") for i in _LEVELS),
        *(rule for level in _LEVELS for rule in _up(level)),
        (r"outc\.(.+)", r"head.\1"),
    ),
    unused=(
        (r"(down|up)Vit\d?\.(norm|head)\..+", "last norm and classifier of a ViT, never called"),
        (r"upVit\d?\.embeddings\..+", "the way up gets tokens, not a map"),
        (r"upVit\d?\.CTBN\..+", "narrows tokens on the way down alone"),
        (r"downVit\.CTBN\..+", "the first tokens are joined with none before them"),
        (r"downVit\d?\.CTBN2\..+", "takes over deeper tokens on the way up alone"),
        (r"upVit3\.CTBN2\..+", "the deepest tokens have none below them"),
        (r"(downVit[123]|upVit\d?)\.CTBN3\..+", "words are added to the first tokens alone"),
        (r"up\d\.pixModule\.conv_sig\..+", "gate of PLAM, never called"),
        (r"pix_module\d\..+", "PLAMs outside of the decoder, never called"),
    ),
    forward=forward,
)
