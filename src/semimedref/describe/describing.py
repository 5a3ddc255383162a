"""``semimedref model describe``: what a network is made of, takes, costs and was published with."""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from semimedref import config
from semimedref.describe.listing import as_plain, option_of
from semimedref.describe.measure import count, measure
from semimedref.describe.text import lines
from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.model.published import catalog

CONVENTION = (
    "of one image and its sentence: a multiplication and an addition are two operations; "
    "convolutions, matrix products and attention count, element-wise work does not"
)
_OWN = ("out", "depth")  # options of ours; any other one is Hydra's
_TRAINING = ("optimizer", "lr", "lr_shape", "min_lr", "weight_decay", "batch_size", "cosine_epochs",
             "lr_update", "epochs")  # fmt: skip
_DEPTH = "2"


def describe_command(args: Sequence[str]) -> int:
    """Print a description, or write it as JSON with ``out=FILE.json``."""
    own = {key: value for key, _, value in (a.partition("=") for a in args) if key in _OWN}
    depth = own.get("depth", _DEPTH)
    if not depth.isdecimal():
        raise UserError(f"depth={depth}: expected how many levels of blocks are shown, e.g. 3")
    overrides = [arg for arg in args if arg.partition("=")[0] not in _OWN]
    name = next((a.partition("=")[2] for a in overrides if a.startswith("model=")), None)
    if not name:
        raise UserError("model describe: model=NAME is missing; `semimedref model list` shows them")
    found = description(name, overrides, depth=int(depth))
    if "out" in own:
        write_atomic(Path(own["out"]).expanduser(), json.dumps(found, indent=2) + "\n")
        print(f"written to {own['out']}")
    else:
        print("\n".join(lines(found)))
    return 0


def description(name: str, overrides: Sequence[str], *, depth: int) -> dict[str, Any]:
    """All that is known of a network, as plain values; nothing is downloaded or initialized."""
    from semimedref.planning.fake_method import fake_method

    option = option_of(name, overrides)
    words = _overrides(name, overrides)
    plain = config.resolved(config.compose(words))
    fake = fake_method(plain)
    network = fake.method.student
    network.check_side(fake.side)
    return {
        **as_plain(option),
        "class": plain["model"]["_target_"],
        "composed": [word for word in words if not word.startswith("hydra.")],
        "docstring": inspect.getdoc(sys.modules[type(network).__module__]) or "",
        "inputs": _inputs(network, fake.side),
        "loss": plain["model"].get("loss", "shared"),
        "training": {key: plain["scale"].get(key) for key in _TRAINING if key in plain["scale"]},
        "published_settings": plain.get("published") or {},
        "convention": CONVENTION,
        **asdict(measure(fake, plain)),
        "checkpoints": [_checkpoint(source) for source in option.sources],
        "tree": tree(network, depth),
    }


def tree(module: nn.Module, depth: int) -> list[dict[str, Any]]:
    """Blocks with their parameters, so many levels deep; what has no parameters is left out."""
    if depth == 0:
        return []
    return [
        {
            "name": name,
            "class": type(child).__name__,
            "parameters": count(child),
            "blocks": tree(child, depth - 1),
        }
        for name, child in module.named_children()
        if count(child)
    ]


def _overrides(name: str, given: Sequence[str]) -> list[str]:
    """The published size, changed by what is given; with a scale, that scale's own encoders."""
    keys = {word.partition("=")[0] for word in given}
    base = ["scale=paper", "image_encoder.weights=random", "text_encoder.weights=random"]
    if name in catalog.names():
        base = [word for word in catalog.source_of(name).overrides if not word.startswith("model=")]
    base = [] if "scale" in keys else [w for w in base if w.partition("=")[0] not in keys]
    return ["method=supervised", "augment=none", *base, *given]


def _inputs(network: nn.Module, side: int) -> dict[str, Any]:
    text = getattr(network, "text_encoder", None)
    return {
        "image_side": side,
        "normalization": network.normalization,
        "tokens": getattr(text, "max_tokens", 0),
        "token_width": getattr(text, "width", 0),
        "text_encoder": type(text).__name__,
        "text_encoder_frozen": bool(getattr(text, "frozen", True)),
        "text_is_cached": bool(getattr(text, "cache", False)),
        "takes_position_token": bool(network.takes_position_token),
    }


def _checkpoint(name: str) -> Mapping[str, Any]:
    """What of a published state dict is used."""
    source, listed = catalog.source_of(name), catalog.published_shapes(name)
    reasons = Counter(reason for key in listed if (reason := source.reason(key)) is not None)
    return {
        "source": name,
        "origin": source.origin,
        "tensors": len(listed),
        "used": len(source.translated(listed)),
        "unused": dict(reasons.most_common()),
    }
