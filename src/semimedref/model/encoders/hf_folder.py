"""Folders of Hugging Face models: configuration and weights, without the network or remote code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from semimedref.errors import UserError
from semimedref.torchvision_shim import import_torchvision

# Heads that a file may lack: nothing here uses them.
_UNUSED = ("pooler",)


def read_config(folder: Path, *, key: str) -> Any:  # noqa: ANN401 - a class of transformers
    """The configuration in a folder, of any architecture that transformers itself has.

    Args:
        folder: holds config.json.
        key: the configuration key that names the folder, for messages.
    """
    import_torchvision()
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        raise UserError(
            f"{key}={folder}: there is no config.json. Expected the folder of a Hugging Face model "
            "(config.json, model.safetensors and, of a text encoder, its tokenizer)"
        )
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, KeyError) as error:
        raise UserError(
            f"{folder}/config.json names no architecture of the installed transformers "
            f"({_first_line(error)}). Code that comes with a model is not run; CXR-BERT is read as "
            "a plain BERT by text_encoder=cxr_bert"
        ) from error


def from_folder(
    auto: type,
    folder: Path,
    config: Any,  # noqa: ANN401 - a class of transformers
) -> nn.Module:
    """A model of a folder in float32; every tensor must be there, but for a pooler.

    transformers itself reads the file: it knows the names that older versions wrote.
    """
    try:
        with _quiet():
            net, found = auto.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{folder} cannot be loaded as {config.model_type} ({_first_line(error)}). Expected "
            "model.safetensors or pytorch_model.bin of exactly the architecture in its config.json"
        ) from error
    bad = [k for k in sorted(found["missing_keys"]) if not any(part in k for part in _UNUSED)]
    bad += [str(k) for k in found["mismatched_keys"]]
    if bad:
        raise UserError(
            f"{folder}: {len(bad)} tensors are missing or of another shape, first {bad[0]}. "
            "Expected weights of exactly the architecture in its config.json"
        )
    return net


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars and without a report of heads that are left out."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bar:
            logging.enable_progress_bar()
