"""Options of the commands that are not Hydra's: ``key=value``, checked, with a helpful error."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from semimedref.errors import UserError

RUN_ROOT = "multirun"  # where runs are looked for when no run_root= is given


def overrides(args: Sequence[str]) -> list[str]:
    """The arguments that change the run's configuration for this machine: ``dataset.root=…``."""
    return [arg for arg in args if "." in arg.partition("=")[0] and "=" in arg]


def parse(
    args: Sequence[str],
    *,
    command: str,
    required: Sequence[str],
    optional: dict[str, str],
    overrides: bool = False,
) -> dict[str, str]:
    """Values by key; ``optional`` gives the keys that may be left out, with their values."""
    known = [*required, *optional]
    found = dict(optional)
    for arg in args:
        if overrides and "." in arg.partition("=")[0] and "=" in arg:
            continue
        key, sign, value = arg.partition("=")
        if not sign or key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}=? " if near else ""
            raise UserError(
                f"{command}: '{arg}' is unknown; {hint}expected "
                + " ".join(f"{k}=…" for k in known)
            )
        found[key] = value
    missing = [k for k in required if k not in found]
    if missing:
        raise UserError(
            f"{command}: {missing[0]}= is missing; e.g. `semimedref {command} --help` shows how"
        )
    return found


def run_folder(name: str, run_root: str) -> Path:
    """The folder of a run by path, by folder name or by the beginning of its signature."""
    for path in (Path(name), Path(run_root) / name):
        if (path / "run.json").is_file():
            return path
    matches = [p.parent for p in Path(run_root).glob(f"*-{name}*/run.json")]
    if len(matches) == 1:
        return matches[0]
    what = "no run" if not matches else f"{len(matches)} runs"
    raise UserError(
        f"run {name} names {what} under {run_root}: expected a run folder, its name or its "
        f"signature (`ls {run_root}`)"
    )
