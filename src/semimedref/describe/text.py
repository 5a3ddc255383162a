"""A description of a network for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NORMALIZATIONS = {
    "z_score": "z_score: less its mean, over its deviation, for each image",
    "imagenet": "imagenet: mean and deviation of ImageNet's colors, three channels",
    "unit": "unit: gray values in [0, 1] as they are",
}
_LOSSES = {
    "native": "native, the one it was published with (model.loss=shared: that of all networks)",
    "shared": "shared by all networks: Dice + binary cross-entropy (docs/architecture.md)",
}
_GIGABYTE = 2**30


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Everything, from what it is to the tree of its blocks."""
    yield f"{found['name']}: {found['about']}"
    yield f"kind: {found['kind']}, {found['kind_means']}"
    yield f"class: {found['class']}"
    yield f"composed with: {' '.join(found['composed'])}"
    yield from ("", *found["docstring"].splitlines(), "")
    yield from _inputs(found["inputs"])
    yield f"loss: {_LOSSES.get(found['loss'], found['loss'])}"
    yield f"training at this scale: {_settings(found['training'])}"
    settings = _settings(found["published_settings"]) or "as the scale has them"
    yield f"published settings: {settings}"
    yield from ("", *_costs(found), "")
    yield from _checkpoints(found["checkpoints"])
    yield "blocks:"
    yield from _tree(found["tree"], "  ")


def _inputs(inputs: Mapping[str, Any]) -> Iterator[str]:
    side = inputs["image_side"]
    yield f"image: {side} x {side} px, {_NORMALIZATIONS[inputs['normalization']]}"
    if not inputs["tokens"]:
        yield "text: none is read" if not inputs["token_width"] else f"text: {_reader(inputs)}"
        return
    yield f"text: {inputs['tokens']} tokens of {inputs['token_width']} from {_reader(inputs)}"
    taken = "can follow the words" if inputs["takes_position_token"] else "is not taken"
    yield f"position token (method=ispg): {taken}"


def _reader(inputs: Mapping[str, Any]) -> str:
    frozen = "frozen" if inputs["text_encoder_frozen"] else "trained"
    return f"{inputs['text_encoder']}, {frozen}" + (", cached" if inputs["text_is_cached"] else "")


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _costs(found: Mapping[str, Any]) -> Iterator[str]:
    parts = [*found["parts"], found["total"]]
    wide = max(len(part["name"]) for part in parts)
    titles = ("parameters", "trainable", "get gradient")
    yield f"{'part':{wide}s} {' '.join(f'{t:>13s}' for t in titles)} {'GFLOPs':>9s}"
    for part in parts:
        yield (
            f"{part['name']:{wide}s} {part['parameters']:13,d} {part['trainable']:13,d} "
            f"{_number(part['with_gradient']):>13s} {_giga(part['flops']):>9s}"
        )
    yield f"GFLOPs {found['convention']}"
    if found["memory"]:
        yield (
            f"memory: {found['memory'] / _GIGABYTE:.1f} GB for a training step of {found['batch']} "
            "labeled images (weights, gradients, AdamW's averages, activations), estimated"
        )
    if found["uncounted"]:
        yield f"not counted without data ({found['uncounted']})"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,d}"


def _giga(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e9:.2f}"


def _checkpoints(checkpoints: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not checkpoints:
        yield "published checkpoint: none that could be imported"
    for one in checkpoints:
        unused = ", ".join(f"{n} {reason}" for reason, n in one["unused"].items())
        yield (
            f"published checkpoint: {one['origin']}, {one['tensors']} tensors, {one['used']} used"
            + (f"; unused: {unused}" if unused else "")
        )
        yield (
            f"  semimedref model import checkpoint=FILE source={one['source']} out=OUT.safetensors"
        )


def _tree(blocks: Sequence[Mapping[str, Any]], indent: str) -> Iterator[str]:
    for block in blocks:
        yield f"{indent}{block['name']} ({block['class']}) {block['parameters']:,d}"
        yield from _tree(block["blocks"], indent + "  ")
