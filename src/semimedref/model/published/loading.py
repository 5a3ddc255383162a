"""Import a published checkpoint, and call the network that is made of it as the authors do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from semimedref.errors import UserError
from semimedref.model.encoders.unk_pos import EmbeddingWithUnkPos
from semimedref.model.published import checkpoint, imported
from semimedref.model.published.catalog import published_names, source_of
from semimedref.model.published.imported import Imported, Origin
from semimedref.model.published.matching import Match, match, network_of, released, shapes_of
from semimedref.model.published.source import Source


class Published(nn.Module):
    """A network with a published interface: takes what the authors' network takes.

    Attributes:
        network: our `Segmenter`.
        origin: where its weights come from.
    """

    def __init__(self, source: Source, network: nn.Module, origin: Origin) -> None:
        super().__init__()
        self.network, self.origin, self._source = network, origin, source

    def forward(self, *inputs: Any, **named: Any) -> Any:  # noqa: ANN401 - each source has its own
        """Logits, before any sigmoid, from inputs that are normalized and tokenized."""
        return self._source.forward(self.network, *inputs, **named)


@dataclass(frozen=True)
class Report:
    """What an import did."""

    source: Source
    match: Match
    checkpoint: checkpoint.Checkpoint
    tied: dict[str, str]


def import_checkpoint(path: str | Path, *, source: str, out: str | Path) -> Report:
    """Write a published checkpoint under our names; refuses what does not fit exactly."""
    known = source_of(source)
    path, out = Path(path).expanduser(), Path(out).expanduser()
    found = checkpoint.read(path)
    if out.exists() and out.samefile(path):
        raise UserError(f"out={out} is the checkpoint itself: choose another name")
    fitted = match(found, known)
    theirs = published_names(known)
    published = {theirs[ours]: t for ours, t in fitted.tensors.items() if ours in theirs}
    unused = dict(fitted.unused)
    tied = imported.tie(unused, published)
    names = {name: key for key, name in fitted.renamed.items()}
    origin = Origin(
        source=known.name,
        model=known.name,
        overrides=list(known.overrides),
        origin=known.origin,
        unused=fitted.reasons,
        tied=tied,
        renamed=fitted.renamed,
        dtypes={names.get(key, key): dtype for key, dtype in found.dtypes.items()},
        checkpoint={"name": path.name, "sha256": found.sha256()},
    )
    imported.write(Imported(origin, fitted.tensors, unused), out)
    return Report(known, fitted, found, tied)


def load(path: str | Path) -> Published:
    """The network of an imported file, in evaluation mode; no other file is needed.

    A release that takes vectors of words holds no text encoder: that of its network is untrained.
    """
    path = Path(path).expanduser()
    file = imported.read(path)
    source = source_of(file.origin.source)  # its own overrides: a file cannot name classes
    with torch.random.fork_rng(devices=[]):  # untrained weights, overwritten below
        network = network_of(source)
    expected, found = (shapes_of(t) for t in (released(network.state_dict(), source), file.tensors))
    differ = [key for key in expected | found if expected.get(key) != found.get(key)]
    if differ:
        raise UserError(
            f"{path} does not fit model={source.name} of this version of semimedref "
            f"({len(differ)} tensors differ, e.g. {differ[0]}): import the checkpoint again"
        )
    network.load_state_dict(file.tensors, strict=False)
    for key, tensor in file.unused.items():
        module = source.table(key)
        if module is not None:
            network.get_submodule(module).take(tensor)
    _refresh(network)
    return Published(source, network, file.origin).eval()


@torch.no_grad()
def _refresh(network: nn.Module) -> None:
    """[UNK_POS] is a copy of [UNK]'s row, which has just been loaded."""
    for part in network.modules():
        if isinstance(part, EmbeddingWithUnkPos):
            part.row.copy_(part.weight[part.unk])
