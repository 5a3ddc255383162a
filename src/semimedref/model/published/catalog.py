"""The published checkpoints that are known: a module with its `SOURCE` and a list of its names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from semimedref.errors import UserError
from semimedref.model.published.source import Source

_FOLDER = Path(__file__).parent
Shapes = dict[str, tuple[int, ...]]


def names() -> list[str]:
    """All sources, by the name of their option ``model=``."""
    listed = sorted(file.stem for file in (_FOLDER / "keys").glob("*.json"))
    return [name for name in listed if (_FOLDER / f"{name}.py").is_file()]


def source_of(name: str) -> Source:
    """The source of that name."""
    if name not in names():
        raise UserError(f"source={name} is unknown: expected {', '.join(names())}")
    return import_module(f"semimedref.model.published.{name}").SOURCE


@lru_cache(maxsize=16)
def published_shapes(name: str) -> Shapes:
    """Names and shapes of the tensors in the released state dict."""
    listed = json.loads((_FOLDER / "keys" / f"{name}.json").read_text())["tensors"]
    return {key: tuple(shape) for key, shape in listed.items()}


def published_names(source: Source) -> dict[str, str]:
    """Published names by ours."""
    pairs = source.translated(published_shapes(source.name)).items()
    return {ours: theirs for theirs, ours in pairs}


def most_like(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, int] | None:
    """The source with which names and shapes agree most, and in how many tensors.

    None if it is less than half: many networks share a text encoder.
    """
    best: tuple[float, str, int] | None = None
    for name in names():
        listed = published_shapes(name)
        common = sum(listed.get(key) == shape for key, shape in shapes.items())
        share = common / max(len(listed), len(shapes), 1)
        if share >= 0.5 and (best is None or share > best[0]):
            best = share, name, common
    return None if best is None else best[1:]
