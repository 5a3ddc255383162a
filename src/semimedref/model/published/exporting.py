"""Write a network under its published names, for the authors' own code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from semimedref.errors import UserError
from semimedref.model.published import imported
from semimedref.model.published.catalog import published_names, published_shapes, source_of
from semimedref.model.published.imported import Imported, Origin
from semimedref.model.published.matching import empty_network, released, shapes_of
from semimedref.model.published.source import Source

_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Exported:
    """What an export wrote, and which unused tensors of the release it could not write."""

    source: Source
    tensors: int
    parameters: int
    absent: list[str]


def export_imported(path: str | Path, *, out: str | Path, prefix: str = "") -> Exported:
    """Write an imported file as the checkpoint that it was: the same names, types and numbers."""
    return _export(imported.read(Path(path).expanduser()), Path(out).expanduser(), prefix)


def export_network(
    state: Mapping[str, Tensor],
    *,
    source: str,
    out: str | Path,
    prefix: str = "",
    unused_from: str | Path | None = None,
) -> Exported:
    """Write a network's state dict under published names.

    Args:
        state: of a network that has the published size.
        source: whose names.
        out: a file; .safetensors, or torch's format for any other ending.
        prefix: what is put before all names, ``model.`` for Lightning.
        unused_from: an imported file that gives the tensors which the network does not have.
    """
    known = source_of(source)
    state = released(state, known)
    _check_size(state, known)
    origin = Origin(known.name, known.name, list(known.overrides), known.origin)
    unused: dict[str, Tensor] = {}
    if unused_from is not None:
        given = imported.read(Path(unused_from).expanduser())
        if given.origin.source != source:
            raise UserError(
                f"unused_from={unused_from} is of source={given.origin.source}: expected one of "
                f"source={source}"
            )
        origin, unused = replace(given.origin, renamed={}, dtypes={}), given.unused
    return _export(Imported(origin, dict(state), unused), Path(out).expanduser(), prefix)


def _export(file: Imported, out: Path, prefix: str) -> Exported:
    source, origin = source_of(file.origin.source), file.origin
    theirs = published_names(source)
    tensors = {theirs[ours]: tensor for ours, tensor in file.tensors.items()} | file.unused
    tensors |= {key: tensors[twin] for key, twin in origin.tied.items()}
    listed = published_shapes(source.name)
    written = {
        prefix + origin.renamed.get(key, key): _typed(tensors[key], origin.dtypes.get(key))
        for key in [*(k for k in listed if k in tensors), *(k for k in tensors if k not in listed)]
    }
    if out.suffix == ".safetensors":
        imported.write_safetensors(written, out)
    else:
        plain = {key: tensor.detach().cpu() for key, tensor in written.items()}
        imported.replace_whole(out, lambda partial: torch.save(plain, partial))
    return Exported(
        source=source,
        tensors=len(written),
        parameters=sum(t.numel() for t in file.tensors.values()),
        absent=[key for key in listed if key not in tensors],
    )


def _typed(tensor: Tensor, dtype: str | None) -> Tensor:
    return tensor if dtype not in _HALVES else tensor.to(_HALVES[dtype])


def _check_size(state: Mapping[str, Tensor], source: Source) -> None:
    expected = shapes_of(released(empty_network(source).state_dict(), source))
    found = shapes_of(state)
    bad = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    if bad:
        key = bad[0]
        raise UserError(
            f"these weights are no {source.name} of the published size: {len(bad)} of "
            f"{len(expected)} tensors differ, e.g. {key} is {found.get(key, 'missing')}, expected "
            f"{expected.get(key, 'none')}. Train with {' '.join(source.overrides[:2])} and the "
            "published encoders, or choose another source="
        )
