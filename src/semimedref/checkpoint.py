"""Checkpoints that survive: written beside, synced, renamed; read without running any code."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from semimedref.errors import UserError
from semimedref.files import write_atomic


def save(state: dict[str, Any], path: Path) -> None:
    """Write ``state`` atomically: after a crash or a full disk the previous file is still there."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomic(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint with tensors and plain values only."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint at {path}") from error
    except PermissionError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    except Exception as error:
        raise UserError(
            f"{path} is truncated or no checkpoint of semimedref "
            f"({type(error).__name__}): delete it and run the same command again"
        ) from error


def pick(state: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - whatever is stored
    """One entry of a checkpoint; another method's or program's file lacks it."""
    if not isinstance(state, Mapping) or key not in state:
        held = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise UserError(
            f"the checkpoint has no '{key}' (it holds {held}): it was written by another method or "
            "program; expected one of the same run"
        )
    return state[key]


def random_state() -> dict[str, Any]:
    """The state of every global random generator, as plain values."""
    python = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python": [python[0], list(python[1]), python[2]],
        "numpy": [name, [int(k) for k in keys], position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_state(state: dict[str, Any]) -> None:
    """Put every global random generator back."""
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    words = np.array(keys, dtype=np.uint32)
    np.random.set_state((name, words, position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count() > 0:
        torch.cuda.set_rng_state_all(state["cuda"])
