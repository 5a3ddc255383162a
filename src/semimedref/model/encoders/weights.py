"""Where pre-trained weights come from: a path, the hub, an installed package, or nowhere."""

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from semimedref.errors import UserError

RANDOM = "random"
_SUFFIXES = ("model.safetensors", "pytorch_model.bin")


def resolve(weights: str | None, *, key: str, example: str, files: Sequence[str]) -> Path | None:
    """Return the file or folder that `weights` names, or None for `random`.

    Args:
        weights: a path, "hub:<id>", "package:<module>/<path inside it>" or "random".
        key: the configuration key, for messages, e.g. "text_encoder.weights".
        example: a path as the user would type it, for messages.
        files: patterns of the files to fetch if `weights` is a hub id.
    """
    if weights == RANDOM:
        return None
    remedy = f"Set {key}={example}, or {key}=random for untrained weights"
    if not weights:
        raise UserError(f"{key} is not set: pre-trained weights are expected. {remedy}")
    kind, _, name = weights.partition(":")
    if kind == "hub":
        return _from_hub(name, remedy=remedy, files=files)
    path = _in_package(name) if kind == "package" else Path(weights).expanduser()
    if path is None or not path.exists():
        found = "is not installed" if path is None else "does not exist"
        raise UserError(f"{key}={weights}: {path or name} {found}. {remedy}")
    return path


def fingerprint(path: Path) -> str:
    """Return the sha256 of a weights file, or of the weights file in a folder."""
    with weights_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_file(path: Path) -> Path:
    """Return `path` itself, or the weights file inside the folder `path`."""
    if path.is_file():
        return path
    for name in _SUFFIXES:
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path} holds no weights: expected {' or '.join(_SUFFIXES)} in that folder")


def read(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a weights file without running any code that it may contain."""
    file = weights_file(path)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        import torch

        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # each reader has its own exceptions for a damaged file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{file} cannot be read as weights ({reason}). "
            "Expected a .safetensors file or a torch file that holds tensors only"
        ) from error
    for wrapper in ("model", "state_dict"):
        if isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    return {key: value for key, value in state.items() if isinstance(value, Tensor)}


def check_fit(own: dict[str, Tensor], given: dict[str, Tensor], *, source: Path) -> None:
    """Raise a UserError unless `given` holds every tensor of `own` in the same shape."""
    bad = [
        f"{key} {tuple(value.shape)}"
        for key, value in own.items()
        if key not in given or given[key].shape != value.shape
    ]
    if bad:
        raise UserError(
            f"{source}: {len(bad)} of {len(own)} tensors are missing or of another shape, first "
            f"{bad[0]}. Expected weights of exactly this architecture"
        )


def _in_package(name: str) -> Path | None:
    """Locate data in a package without importing it: its code may be heavy."""
    module, _, inside = name.partition("/")
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / inside


def _from_hub(repository: str, *, remedy: str, files: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, allow_patterns=list(files)))
    except Exception as error:  # offline, unknown id, gated, proxy: one answer for all
        reason = str(error).splitlines()[0]
        raise UserError(
            f"hub id {repository} is neither in the local hub cache nor reachable ({reason}). "
            f"{remedy}"
        ) from error
