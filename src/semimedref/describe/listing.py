"""The networks of ``conf/model``: what each is, and which published checkpoint it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from semimedref.config import config_dir, search_folders
from semimedref.errors import UserError
from semimedref.model.published import catalog

KINDS = {
    "exact": "a published state dict maps to it tensor by tensor, with the same outputs",
    "reconstruction": "rebuilt from a description: there is no published state dict to compare",
    "native": "of a semi-supervised method, as it was released: there is no published state dict",
    "control": "asks what can be reached without image or text",
    "own": "from a configuration folder of yours",
}
_PACKAGE = "# @package"


@dataclass(frozen=True)
class Option:
    """An option file of ``conf/model``.

    Attributes:
        name: as in ``model=NAME``.
        kind: exact, reconstruction, native, control or own.
        about: the first line of the file.
        target: its class.
        sources: published checkpoints that it takes.
    """

    name: str
    kind: str
    about: str
    target: str
    sources: tuple[str, ...]


def list_command(args: Sequence[str]) -> int:
    """Print every network and the meaning of the kinds."""
    strange = [arg for arg in args if not arg.startswith("hydra.searchpath=")]
    if strange:
        raise UserError(f"model list: '{strange[0]}' is unknown; expected nothing more")
    found = options(args)
    wide = max(len(option.name) for option in found)
    for kind, meaning in KINDS.items():
        of_kind = [option for option in found if option.kind == kind]
        if of_kind:
            print(f"{kind}: {meaning}")
        for option in of_kind:
            sources = f" [source={', source='.join(option.sources)}]" if option.sources else ""
            print(f"  {option.name:{wide}s}  {option.about}{sources}")
    print("`semimedref model describe model=NAME` says more about one")
    return 0


def options(overrides: Sequence[str] = ()) -> list[Option]:
    """All networks, by name; with those of further configuration folders."""
    folders = [config_dir(), *search_folders(overrides)]
    files = {file.stem: file for folder in folders for file in Path(folder, "model").glob("*.yaml")}
    targets = {name: _target(file) for name, file in files.items()}
    sources = {name: targets.get(name, "") for name in catalog.names()}
    found = []
    for name, file in sorted(files.items()):
        taken = tuple(s for s, target in sources.items() if target and target == targets[name])
        about = _about(file)
        kind = _kind(file, about, taken)
        found.append(Option(name, kind, about, targets[name], taken))
    return found


def _kind(file: Path, about: str, sources: Sequence[str]) -> str:
    if sources:
        return "exact"
    if file.stem.endswith("_recon"):
        return "reconstruction"
    if "control" in about.split(":")[0].lower():
        return "control"
    return "native" if file.is_relative_to(config_dir()) else "own"


def option_of(name: str, overrides: Sequence[str] = ()) -> Option:
    """The option of that name."""
    known = {option.name: option for option in options(overrides)}
    if name not in known:
        raise UserError(f"model={name} is unknown: expected {', '.join(known)}")
    return known[name]


def as_plain(option: Option) -> dict[str, object]:
    """For JSON."""
    return asdict(option) | {"kind_means": KINDS[option.kind]}


def _about(file: Path) -> str:
    """The first line of an option file that says something."""
    lines = (line for line in file.read_text().splitlines() if not line.startswith(_PACKAGE))
    first = next((line for line in lines if line.strip()), "")
    return first.removeprefix("#").partition("semimedref train")[0].strip()


def _target(file: Path) -> str:
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except yaml.YAMLError as error:
        raise UserError(f"{file} is not valid YAML") from error
    node = content.get("model") if isinstance(content.get("model"), dict) else content
    return str(node.get("_target_", ""))
