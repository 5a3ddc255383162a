"""What the network of a row costs, counted from the network itself: no run is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from semimedref.errors import UserError
from semimedref.expansion import cache_folder
from semimedref.files import write_atomic

CONVENTION = (
    "Params: trunk, head and, as the paper counts, both projectors of positions with their gates "
    "(PACL's is off in training by default). GFLOPs of one image of {side} px: a multiplication "
    "and an addition are two operations; convolutions and matrix products count, a LayerNorm 5 "
    "and a GELU 1 an element, nothing else."
)
# Rows below the table, and which of the counted numbers they show.
OVERHEAD = (("Prediction-head overhead", "_head"), ("ISPG overhead", ""))
# What is in the weights costs nothing, and files need not be there yet. A trunk that is taken over
# counts as if all of it learned: an upper bound.
_FILES = {"weights": "random", "tokenizer": None, "trunk": None, "center_on": None}


def count(config: Mapping[str, Any]) -> dict[str, float]:
    """The facts that a row's method states about its networks; no weights are read.

    They are kept on the disk until the configuration or the code that computes them changes.
    """
    told = [without_files(config["method"]), side_of(config), code_of("method", "model")]
    key = hashlib.sha1(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    file = cache_folder() / "costs" / f"{key}.json"
    with suppress(OSError, ValueError):
        kept: dict[str, float] = json.loads(file.read_text())
        return kept
    facts = _counted(config)
    with suppress(UserError):  # a cache that cannot be written only costs time
        write_atomic(file, json.dumps(facts))
    return facts


def _counted(config: Mapping[str, Any]) -> dict[str, float]:
    import torch
    from omegaconf import OmegaConf

    from semimedref.config import build

    cfg = OmegaConf.create({**config, "method": without_files(config["method"])})
    with torch.device("meta"):
        method = build(cfg, "method")
    facts: dict[str, float] = method.facts(side_of(config))
    return facts


@lru_cache(maxsize=8)
def code_of(*folders: str) -> str:
    """A hash of the code in some folders of the package, and of torch's version."""
    digest = hashlib.sha1(version("torch").encode())
    package = Path(__file__).parents[1]
    for file in (f for folder in folders for f in sorted((package / folder).rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def side_of(config: Mapping[str, Any]) -> int:
    """Pixels a side of the images that the network takes."""
    return int(config["scale"]["image_side"])


def without_files(node: Any) -> Any:  # noqa: ANN401 - plain JSON values
    """A configuration whose networks read no file."""
    if isinstance(node, dict):
        return {k: _FILES[k] if k in _FILES else without_files(v) for k, v in node.items()}
    return [without_files(v) for v in node] if isinstance(node, list) else node


def exact(name: str, value: float) -> str:
    """A cost as it stands in its column."""
    return f"{value:,.0f}" if name.startswith("params") else f"{value:.2f}"


def added(name: str, value: float) -> str:
    """A cost as something that is added."""
    if name.startswith("params"):
        return f"+{value / 1e6:.2f} M"
    return "< 0.001" if value < 0.001 else f"+{value:.2f}"


def published(name: str, value: float) -> str:
    """A cost as the paper prints it: parameters in millions."""
    return f"{value / 1e6:.2f} M" if name.startswith("params") else f"{value:.2f}"
