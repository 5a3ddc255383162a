"""Fit the tensors of a checkpoint to a source: all of them are accounted for, or it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.published.catalog import (
    Shapes,
    most_like,
    published_names,
    published_shapes,
)
from semimedref.model.published.checkpoint import Checkpoint
from semimedref.model.published.renaming import listed_names
from semimedref.model.published.source import Source
from semimedref.model.segmenter import Segmenter

_TEXT = "text_encoder."
_SHOWN = 3  # names that a message lists of each kind


@dataclass(frozen=True)
class Match:
    """A checkpoint whose tensors are all accounted for.

    Attributes:
        tensors: what the network uses, by our names.
        unused: what it does not use, by published names.
        reasons: why, by published names.
        renamed: names in the file by those of the release, where they differ.
        absent: unused tensors of the release that are not in the file.
        parameters: how many numbers of ``tensors`` are parameters, and no statistics.
    """

    tensors: dict[str, Tensor]
    unused: dict[str, Tensor]
    reasons: dict[str, str]
    renamed: dict[str, str]
    absent: list[str]
    parameters: int


def match(checkpoint: Checkpoint, source: Source) -> Match:
    """Map a checkpoint's names to ours, or raise a UserError that lists what does not fit."""
    listed = published_shapes(source.name)
    other = listed_names(checkpoint.tensors, listed)
    network = empty_network(source)
    expected = shapes_of(released(network.state_dict(), source))
    tensors, unused, reasons, problems = {}, {}, {}, _Problems()
    for found, tensor in checkpoint.tensors.items():
        key = other.get(found, found)
        reason, ours = source.reason(key), source.ours(key)
        if reason is not None and key not in unused:
            unused[key], reasons[key] = tensor, reason
        elif reason is not None or ours not in expected or ours in tensors:
            problems.unexpected.append(found)
        elif tuple(tensor.shape) != expected[ours]:
            problems.shaped.append(f"{found} is {tuple(tensor.shape)} instead of {expected[ours]}")
            tensors[ours] = tensor
        else:
            tensors[ours] = tensor
    for ours in expected:  # counted steps, which older files do not have and nothing reads
        if ours.endswith(".num_batches_tracked"):
            tensors.setdefault(ours, torch.zeros((), dtype=torch.int64))
    theirs = published_names(source)
    problems.missing += [theirs.get(ours, ours) for ours in expected if ours not in tensors]
    if problems:
        raise _refusal(checkpoint, source, problems)
    known = {*unused, *(theirs[ours] for ours in tensors if ours in theirs)}
    return Match(
        tensors=tensors,
        unused=unused,
        reasons=reasons,
        renamed={key: found for found, key in other.items()},
        absent=[key for key in listed if key not in known],
        parameters=sum(p.numel() for n, p in network.named_parameters() if n in tensors),
    )


def empty_network(source: Source) -> Segmenter:
    """Our network at its published size, whose tensors have shapes and no data."""
    with torch.device("meta"):
        return network_of(source)


def released(state: Mapping[str, Tensor], source: Source) -> dict[str, Tensor]:
    """The part of our state dict that is in the release; some read words outside of the network."""
    own_words = any(ours.startswith(_TEXT) for ours in published_names(source))
    return {key: tensor for key, tensor in state.items() if own_words or not key.startswith(_TEXT)}


def network_of(source: Source) -> Segmenter:
    """Our network at its published size, with untrained weights."""
    return build(compose(list(source.overrides)), "model")


def shapes_of(tensors: Mapping[str, Tensor]) -> Shapes:
    """The shape of every tensor."""
    return {key: tuple(tensor.shape) for key, tensor in tensors.items()}


class _Problems:
    """What does not fit."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.shaped: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.shaped)

    def __str__(self) -> str:
        kinds = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape": self.shaped,
        }
        return "; ".join(f"{len(v)} {k} ({_some(v)})" for k, v in kinds.items() if v)


def _refusal(checkpoint: Checkpoint, source: Source, problems: _Problems) -> UserError:
    like = most_like(shapes_of(checkpoint.tensors))
    if like is not None and like[0] != source.name:
        total = len(published_shapes(like[0]))
        help_ = f"It looks like {like[0]} ({like[1]} of {total} tensors): set source={like[0]}"
    else:
        help_ = f"`semimedref model describe model={source.name}` shows what it has"
    return UserError(
        f"{checkpoint.path} is no checkpoint of source={source.name}, the network of "
        f"{source.origin} at its published size. Tensors: {problems}. {help_}"
    )


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
