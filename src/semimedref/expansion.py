"""Compose the cells of a table, each once, and keep the compositions on disk.

Composing costs a tenth of a second in Hydra. A group that nothing else reads (``seed``, mostly
``ratio``) is exchanged in a composition that is there already, which costs nothing.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config
from semimedref.errors import UserError
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from omegaconf import DictConfig

Entry = dict[str, Any]  # row, point, overrides and plain: what a cell is made of
_ANY_ROOT = "__run_root__"  # stands for the run root in what is kept
_EXCHANGED = ("seed", "ratio")  # groups of one or two numbers that tables run over


def entries(
    base: DictConfig,
    rows: Mapping[str, Mapping[str, Any]],
    *,
    fixed: Sequence[str],
    params: Mapping[str, Sequence[str]],
) -> list[Entry]:
    """Every row at every point of the params, from the disk where that is the same as before.

    Where the runs lie decides nothing: compositions are kept for any run root.
    """
    given = [o for o in fixed if o.startswith("run_root=")]
    others = [o for o in fixed if not o.startswith("run_root=")]
    cache = cache_folder() / "expansions" / f"{_cache_key(base, rows, others, params)}.json"
    if cache.exists():
        text = cache.read_text()
    else:
        composer = _Composer([*others, f"run_root={_ANY_ROOT}"], params)
        text = json.dumps(
            [
                composer.entry(row, changes, dict(zip(params, values, strict=True)))
                for row, changes in rows.items()
                for values in itertools.product(*params.values())
            ]
        )
        with suppress(UserError):  # a cache that cannot be written only costs time
            write_atomic(cache, text)
    root = json.dumps(str(base.run_root))[1:-1]
    made: list[Entry] = json.loads(text.replace(_ANY_ROOT, root))
    for entry in made:
        kept = [o for o in entry["overrides"] if not o.startswith("run_root=")]
        entry["overrides"] = [*given, *kept]
    return made


def cache_folder() -> Path:
    """Where what can be computed again is kept between commands."""
    named = os.environ.get("SEMIMEDREF_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "semimedref"


def hydra_value(value: Any) -> str:  # noqa: ANN401 - a YAML value
    """A value in the grammar of Hydra's command line."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{','.join(map(hydra_value, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{k}:{hydra_value(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


@dataclass
class _Composer:
    """Composes what differs, and exchanges the groups that stand alone."""

    fixed: list[str]
    params: Mapping[str, Sequence[str]]
    options: dict[tuple[str, str], Any] = field(default_factory=dict)  # (group, option) -> content
    made: dict[str, tuple[dict[str, Any], frozenset[str]]] = field(default_factory=dict)

    def entry(self, row: str, changes: Mapping[str, Any], point: dict[str, str]) -> Entry:
        overrides = self._overrides(row, changes, point)
        loose = {k: v for k, v in point.items() if self._may_exchange(k, changes)}
        plain, bound = self._made_once(overrides, loose)
        if bound & loose.keys():  # something reads a group: only Hydra knows what follows from it
            loose = {k: v for k, v in loose.items() if k not in bound}
            plain, _ = self._made_once(overrides, loose)
        plain = copy.copy(plain) | {k: self._content(k, v) for k, v in loose.items()}
        return {"row": row, "point": point, "overrides": overrides, "plain": plain}

    def _made_once(
        self, overrides: list[str], loose: dict[str, str]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        """A composition that serves for all values of some groups, and what else reads them."""
        kept = [o for o in overrides if o.split("=", 1)[0] not in loose]
        key = json.dumps([kept, sorted(loose)])
        if key not in self.made:
            self.made[key] = _composed([*kept, *(f"{k}={v}" for k, v in loose.items())])
        return self.made[key]

    def _overrides(self, row: str, changes: Mapping[str, Any], point: dict[str, str]) -> list[str]:
        own = [f"{key}={hydra_value(value)}" for key, value in changes.items()]
        own += [f"{key}={value}" for key, value in point.items()]
        named = {o.split("=", 1)[0] for o in own}
        kept = [o for o in self.fixed if o.split("=", 1)[0] not in named]
        return [*kept, *own, f"row={hydra_value(row)}"]

    def _may_exchange(self, key: str, changes: Mapping[str, Any]) -> bool:
        """Not where a value inside the group is set, too (``ratio.split_seed=1``)."""
        inside = (*self.fixed, *changes, *self.params)
        return key in _EXCHANGED and not any(o.lstrip("+~").startswith(f"{key}.") for o in inside)

    def _content(self, group: str, option: str) -> Any:  # noqa: ANN401 - plain YAML values
        """What an option of a group holds, as a composition has it."""
        found = self.options.get((group, option))
        if found is None:
            others = [o for o in self.fixed if o.split("=", 1)[0] != group]
            found = _composed([*others, f"{group}={option}"])[0][group]
            self.options[group, option] = found
        return copy.deepcopy(found)


def _composed(overrides: list[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """A resolved composition, and which of the exchanged groups another part of it reads."""
    from omegaconf import OmegaConf

    cfg = config.compose(overrides)
    written = OmegaConf.to_container(cfg, resolve=False)
    written.pop("hydra", None)
    bound = {
        group
        for group in _EXCHANGED
        if f"{group}." in json.dumps({k: v for k, v in written.items() if k != group}, default=str)
        or f"${{{group}}}" in json.dumps(written, default=str)
    }
    return config.resolved(cfg), frozenset(bound)


def _cache_key(
    base: DictConfig,
    rows: Mapping[str, Mapping[str, Any]],
    fixed: Sequence[str],
    params: Mapping[str, Sequence[str]],
) -> str:
    """All that decides a composition: every configuration folder, packages, overrides."""
    digest = hashlib.sha1()
    here = Path(__file__).parent
    folders = [Path(s.path) for s in base.hydra.runtime.config_sources if s.schema == "file"]
    files = [
        f for folder in (config.config_dir(), *folders) for f in sorted(folder.rglob("*.yaml"))
    ]
    for file in (*files, here / "sweep.py", here / "expansion.py", here / "config.py"):
        digest.update(str(file).encode() + file.read_bytes())
    packages = [f"{p}=={version(p)}" for p in ("hydra-core", "omegaconf", "semimedref")]
    told = [packages, list(fixed), dict(params), dict(rows), _environment()]
    digest.update(json.dumps(told, default=str).encode())
    return digest.hexdigest()


def _environment() -> list[str]:
    return [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("SEMIMEDREF_")]
