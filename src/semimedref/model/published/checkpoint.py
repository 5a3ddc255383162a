"""Read a published checkpoint: tensors only, no code that the file may contain is ever run."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from semimedref.errors import UserError

_WRAPPERS = ("state_dict", "model", "model_state_dict")
_PREFIXES = ("module.", "model.")  # of DataParallel and of Lightning
_TEACHER = "ema_model."  # beside "model.", in checkpoints of teacher-student training
_HALVES = (torch.float16, torch.bfloat16)
_SHOWN = 3  # names that a message lists


@dataclass(frozen=True)
class Checkpoint:
    """What is in a file.

    Attributes:
        path: the file.
        tensors: by name without prefix; numbers with a point are float32.
        prefix: what stood before all names.
        dtypes: names of halves, which are as exact in float32, and their type.
        rounded: how many doubles were rounded.
    """

    path: Path
    tensors: dict[str, Tensor]
    prefix: str
    dtypes: dict[str, str]
    rounded: int

    def sha256(self) -> str:
        """The hash of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path) -> Checkpoint:
    """Read .safetensors, or a file of torch.save; refuse what is not finite or needs code."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"{path} {what}: expected a file .pth, .pt, .ckpt, .bin or .safetensors")
    tensors, prefix = _unprefixed(_tensors(_content(path), path))
    _refuse_unfit(tensors, path)
    doubles = [key for key, tensor in tensors.items() if tensor.dtype == torch.float64]
    halves = {
        key: str(tensor.dtype).removeprefix("torch.")
        for key, tensor in tensors.items()
        if tensor.dtype in _HALVES
    }
    plain = {k: t.float() if t.is_floating_point() else t for k, t in tensors.items()}
    return Checkpoint(path, plain, prefix, halves, len(doubles))


def _content(path: Path) -> object:
    if path.suffix == ".safetensors":
        return _safetensors(path)
    try:
        # A Namespace of command-line options is plain data; some authors save theirs.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        if "Weights only load failed" not in str(error):
            raise _unreadable(path, error) from error
        raise UserError(
            f"{path} needs code to be read, which could do anything on this machine, so it was not "
            "opened. If you trust its authors, convert it where their code is installed: "
            'python -c "import torch; from safetensors.torch import save_file; '
            f"d = torch.load('{path.name}', map_location='cpu', weights_only=False); "
            "d = d.get('state_dict', d.get('model', d)); "
            "save_file({k: v.clone().contiguous() for k, v in d.items()}, "
            f"'{path.stem}.safetensors')\" and import that file"
        ) from error
    except Exception as error:  # each kind of damage has its own exception
        raise _unreadable(path, error) from error


def _safetensors(path: Path) -> object:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # safetensors has exceptions of its own
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
    return UserError(
        f"{path} cannot be read as a checkpoint ({reason}): it is cut short or of another kind; "
        "expected .safetensors or a file of torch.save. Fetch it again"
    )


def _tensors(content: object, path: Path) -> dict[str, Tensor]:
    """The state dict, whatever is wrapped around it."""
    for wrapper in _WRAPPERS:
        inner = content.get(wrapper) if isinstance(content, Mapping) else None
        if isinstance(inner, Mapping):
            content = inner
            break
    if not isinstance(content, Mapping) or not content:
        raise UserError(f"{path} holds {type(content).__name__}: expected tensors by name")
    strange = [str(key) for key, value in content.items() if not isinstance(value, Tensor)]
    if strange:
        raise UserError(
            f"{path} holds no state dict: {_some(strange)} "
            f"{'is no tensor' if len(strange) == 1 else 'are no tensors'}; expected tensors by "
            f"name, perhaps inside {' or '.join(_WRAPPERS[:2])}"
        )
    return {str(key): tensor for key, tensor in content.items()}


def _unprefixed(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], str]:
    """Without what wrappers put before all names, a teacher's copy aside."""
    copies = {key: tensor for key, tensor in tensors.items() if key.startswith(_TEACHER)}
    tensors = {key: tensor for key, tensor in tensors.items() if key not in copies}
    if not tensors:
        return copies, ""
    taken = ""
    while prefix := next((p for p in _PREFIXES if all(k.startswith(p) for k in tensors)), ""):
        tensors = {key.removeprefix(prefix): tensor for key, tensor in tensors.items()}
        taken += prefix
    return tensors | copies, taken


def _refuse_unfit(tensors: Mapping[str, Tensor], path: Path) -> None:
    odd = [k for k, t in tensors.items() if t.is_complex() or t.is_quantized or t.is_sparse]
    if odd:
        raise UserError(f"{path}: {_some(odd)} complex, sparse or quantized; expected plain floats")
    bad = [k for k, t in tensors.items() if t.is_floating_point() and not t.isfinite().all()]
    if bad:
        raise UserError(
            f"{path}: {len(bad)} of {len(tensors)} tensors hold NaN or infinite values, e.g. "
            f"{_some(bad)}: the training that wrote it had failed. Use another checkpoint"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
