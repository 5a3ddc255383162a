"""The file that an import writes: safetensors with our names, and what is known of its origin."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from semimedref.errors import UserError
from semimedref.files import partial_of

FORMAT = 1
UNUSED = "unused."  # before the published names of tensors that the network does not use
_KEY = "semimedref"  # of the metadata
_LARGE = 1_000_000  # numbers; smaller tensors may be stored twice


@dataclass(frozen=True)
class Origin:
    """What is known of an imported file.

    Attributes:
        source: the name of the source.
        model: the option ``model=``.
        overrides: the configuration, for people; loading takes the source's own.
        origin: repository and commit of the state dict.
        unused: why, by the published names of tensors that the network does not use.
        tied: unused tensors that equal another one, which is named and stored instead.
        renamed: names in the checkpoint by published ones, where they differ.
        dtypes: types that were not float32, by published names.
        checkpoint: name and hash of the file that was imported.
        format: the version of this list.
    """

    source: str
    model: str
    overrides: list[str]
    origin: str
    unused: dict[str, str] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    checkpoint: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True)
class Imported:
    """An imported file in memory: tensors by our names, unused ones by published names."""

    origin: Origin
    tensors: dict[str, Tensor]
    unused: dict[str, Tensor]


def write(imported: Imported, path: Path) -> None:
    """Write the file whole or not at all."""
    unused = {f"{UNUSED}{key}": tensor for key, tensor in imported.unused.items()}
    about = {_KEY: json.dumps(asdict(imported.origin))}
    write_safetensors(imported.tensors | unused, path, about)


def read(path: Path) -> Imported:
    """Read an imported file; another one is refused with the command that imports it."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = (file.metadata() or {}).get(_KEY)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - no dict
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist: expected a file of `{_command(path)}`") from error
    except Exception as error:  # safetensors has exceptions of its own
        raise _foreign(path, error) from error
    if about is None:
        raise _foreign(path)
    used = {key: t for key, t in tensors.items() if not key.startswith(UNUSED)}
    unused = {k.removeprefix(UNUSED): t for k, t in tensors.items() if k.startswith(UNUSED)}
    return Imported(_origin(about, path), used, unused)


def tie(unused: dict[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, str]:
    """Take out of ``unused`` what equals one of ``others``; returns which one.

    A masked-language head shares the word embedding, which is a fifth of a file.
    """
    large = {key: t for key, t in unused.items() if t.numel() >= _LARGE}
    tied = {}
    for key, tensor in large.items():
        same = (k for k, t in others.items() if t.shape == tensor.shape and t.equal(tensor))
        twin = next(same, None)
        if twin is not None:
            tied[key] = twin
            del unused[key]
    return tied


def write_safetensors(
    tensors: Mapping[str, Tensor], path: Path, about: dict[str, str] | None = None
) -> None:
    """Write safetensors whole or not at all."""
    from safetensors.torch import save_file

    seen: set[int] = set()
    alone = {}
    for key, tensor in tensors.items():  # the format knows neither views nor sharing
        storage = tensor.untyped_storage()
        whole = tensor.is_contiguous() and storage.nbytes() == tensor.nbytes
        shared = tensor.numel() > 0 and storage.data_ptr() in seen
        seen.add(storage.data_ptr())
        alone[key] = tensor.detach() if whole and not shared else tensor.detach().clone()
        alone[key] = alone[key].contiguous()
    replace_whole(path, lambda partial: save_file(alone, partial, metadata=about))


def replace_whole(path: Path, save: Callable[[Path], None]) -> None:
    """Let ``save`` write beside a path and move the result into place; nothing is left halfway."""
    if path.is_dir():
        raise UserError(f"out={path} is a folder: expected the name of a file")
    partial = partial_of(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        mode = partial.stat().st_mode  # what the user's umask gives; safetensors hides its files
        save(partial)
        partial.chmod(mode)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise UserError(
            f"could not write {path} ({error.strerror or error}): what was there is unchanged"
        ) from error
    finally:
        if partial.parent.is_dir():
            partial.unlink(missing_ok=True)


def _origin(text: str, path: Path) -> Origin:
    try:
        found: dict[str, Any] = json.loads(text)
        version = found.get("format")
        known = {f.name for f in fields(Origin)}
        origin = Origin(**{key: value for key, value in found.items() if key in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: its metadata are damaged; import the checkpoint again") from error
    if version != FORMAT:
        raise UserError(
            f"{path} has format {version}, this version of semimedref reads format {FORMAT}: "
            "import the checkpoint again"
        )
    return origin


def _foreign(path: Path, error: Exception | None = None) -> UserError:
    """The refusal of a file that is no import; a raw checkpoint is recognized."""
    from semimedref.model.published import checkpoint
    from semimedref.model.published.catalog import most_like
    from semimedref.model.published.matching import shapes_of

    try:
        like = most_like(shapes_of(checkpoint.read(path).tensors))
    except UserError:
        like = None
    if like is not None:
        return UserError(
            f"{path} is a published checkpoint of {like[0]} that is not imported yet: run "
            f"`{_command(path, like[0])}`, then load OUT.safetensors"
        )
    detail = f" ({str(error).splitlines()[0][:100]})" if error is not None and str(error) else ""
    return UserError(
        f"{path} is no file of `semimedref model import`{detail}: expected one. A published "
        f"checkpoint is imported by `{_command(path)}`"
    )


def _command(path: Path, source: str = "NAME") -> str:
    return f"semimedref model import checkpoint={path} source={source} out=OUT.safetensors"
