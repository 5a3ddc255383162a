"""Write a result file whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from semimedref.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically; a reader sees the old text or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True) if partial.parent.is_dir() else None
        raise UserError(
            f"cannot write {path} ({error.strerror or error}); expected a writable folder, choose "
            "another one with `run_root=FOLDER`"
        ) from None
