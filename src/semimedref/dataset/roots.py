"""Where data sets and caches lie on this machine; nothing here decides a result."""

from __future__ import annotations

import os
from pathlib import Path

from semimedref.errors import UserError


def cache_root() -> Path:
    """The folder for everything that can be made again: SEMIMEDREF_CACHE or ~/.cache/semimedref."""
    named = os.environ.get("SEMIMEDREF_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "semimedref"


def user_file() -> Path:
    """The user-level file with ``roots: {qata_cov19: /path, …}``."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "semimedref" / "config.yaml"


def variable(name: str) -> str:
    """The environment variable that may name the folder of a data set."""
    return f"SEMIMEDREF_{name.upper()}"


def data_root(name: str, root: str | None, *, kind: str) -> Path:
    """The folder of a data set: from the configuration, the environment or the user's file.

    Args:
        name: what the user calls the data set.
        root: what the configuration says.
        kind: what the data set is; a partition of one's own, under another name, lies there too.
    """
    ways = {f"dataset.root={root}": root}
    for known in dict.fromkeys((name, kind)):
        ways[f"the environment variable {variable(known)}"] = os.environ.get(variable(known))
    for known in dict.fromkeys((name, kind)):
        ways[f"{user_file()} ({known})"] = _from_user_file(known)
    for way, found in ways.items():
        if found:
            path = Path(found).expanduser()
            if not path.exists():
                raise UserError(f"{name}: {way} names {path}, which does not exist")
            return path.absolute()
    raise UserError(
        f"{name}: its folder is not known; expected dataset.root=FOLDER, the environment variable "
        f"{variable(kind)}, or a line `{kind}: FOLDER` under `roots:` in {user_file()}"
    )


def _from_user_file(name: str) -> str | None:
    file = user_file()
    if not file.is_file():
        return None
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(
            f"{file} is no YAML: expected lines `roots:` and `  {name}: FOLDER`"
        ) from error
    roots = content.get("roots") if isinstance(content, dict) else None
    if content is not None and not isinstance(roots, dict):
        raise UserError(f"{file} has no `roots:` with lines `  {name}: FOLDER`")
    found = (roots or {}).get(name)
    return None if found is None else str(found)
