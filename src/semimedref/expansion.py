"""Compose the cells of a table, each once, and keep the compositions on disk.

Composing costs a tenth of a second in Hydra. The groups ``seed`` and ``ratio`` hold one or two
numbers, so they are exchanged in a composition that is there already. Where another part reads them
(MosMedData+ reads the ratio), what it says is resolved again; else they are put in as they are.
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
from functools import lru_cache
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
_READ_OF_HYDRA = ("sweeper", "runtime")
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


def composed(overrides: Sequence[str]) -> DictConfig:
    """A composition as `config.compose` makes it, from the disk where nothing has changed since.

    It is data to read: types of structured configurations are not kept.
    """
    from omegaconf import OmegaConf

    cache = _kept_at(overrides)
    with suppress(OSError, ValueError):
        return OmegaConf.create(json.loads(cache.read_text()))
    cfg = config.compose(list(overrides))
    if {str(f.absolute()) for f in _folders(overrides)} >= {str(f) for f in _sources(cfg)}:
        with suppress(UserError):  # a cache that cannot be written only costs time
            plain = OmegaConf.to_container(cfg, resolve=False, enum_to_str=True)
            plain["hydra"] = {name: plain["hydra"][name] for name in _READ_OF_HYDRA}
            write_atomic(cache, json.dumps(plain, default=str))
    return cfg


def is_kept(overrides: Sequence[str]) -> bool:
    """Whether `composed` finds the composition on the disk."""
    return _kept_at(overrides).exists()


def _kept_at(overrides: Sequence[str]) -> Path:
    told = json.dumps([list(overrides), _packages(), _environment()])
    key = hashlib.sha1((told + _digest(_folders(overrides))).encode()).hexdigest()
    return cache_folder() / "compositions" / f"{key}.json"


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
    made: dict[str, _Composition] = field(default_factory=dict)

    def entry(self, row: str, changes: Mapping[str, Any], point: dict[str, str]) -> Entry:
        overrides = self._overrides(row, changes, point)
        loose = {k: v for k, v in point.items() if self._may_exchange(k, changes)}
        made = self._made_once(overrides, loose)
        contents = {group: self._content(group, option) for group, option in loose.items()}
        return {
            "row": row, "point": point, "overrides": overrides, "plain": made.holding(contents),
        }  # fmt: skip

    def _made_once(self, overrides: list[str], loose: dict[str, str]) -> _Composition:
        """A composition that serves for all values of some groups."""
        kept = [o for o in overrides if o.split("=", 1)[0] not in loose]
        key = json.dumps([kept, sorted(loose)])
        if key not in self.made:
            made = self.made[key] = _composed([*kept, *(f"{k}={v}" for k, v in loose.items())])
            for group, option in loose.items():
                self.options.setdefault((group, option), made.plain[group])
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
        if (group, option) not in self.options:
            path = tuple(o for o in self.fixed if o.startswith("hydra.searchpath="))
            alone = {name: _option(group, name, path) for g, name in self.options if g == group}
            if all(content == self.options[group, name] for name, content in alone.items()):
                found = _option(group, option, path)  # this experiment changes nothing inside
            else:
                others = [o for o in self.fixed if o.split("=", 1)[0] != group]
                found = _composed([*others, f"{group}={option}"]).plain[group]
            self.options[group, option] = found
        return self.options[group, option]


def _option(group: str, option: str, search_path: tuple[str, ...]) -> Any:  # noqa: ANN401
    """What an option of one of the exchanged groups holds where no experiment is chosen."""
    return _option_of(group, option, search_path, _digest(_folders(search_path)))


@lru_cache(maxsize=256)  # equal files: one composition serves all experiments
def _option_of(group: str, option: str, search_path: tuple[str, ...], digest: str) -> Any:  # noqa: ANN401
    del digest
    return config.resolved(config.compose([*search_path, f"{group}={option}"]))[group]


@dataclass
class _Composition:
    """A composition, and which of the exchanged groups another part of it reads."""

    cfg: DictConfig
    plain: dict[str, Any]
    read: frozenset[str]
    resolved: dict[str, dict[str, Any]] = field(default_factory=dict)  # by what is read

    def holding(self, contents: Mapping[str, Any]) -> dict[str, Any]:
        """The resolved composition with other contents of the exchanged groups."""
        read = {group: content for group, content in contents.items() if group in self.read}
        key = json.dumps(read, sort_keys=True)
        if not read:
            self.resolved[key] = self.plain
        elif key not in self.resolved:
            from omegaconf import open_dict

            with open_dict(self.cfg):
                self.cfg.update(read)
            self.resolved[key] = config.resolved(self.cfg)
        return self.resolved[key] | copy.deepcopy(dict(contents))


def _composed(overrides: list[str]) -> _Composition:
    """A composition of some overrides."""
    from omegaconf import OmegaConf

    cfg = config.compose(overrides)
    written = OmegaConf.to_container(cfg, resolve=False)
    written.pop("hydra", None)
    read = {
        group
        for group in _EXCHANGED
        if f"{group}." in json.dumps({k: v for k, v in written.items() if k != group}, default=str)
        or f"${{{group}}}" in json.dumps(written, default=str)
    }
    return _Composition(cfg, config.resolved(cfg), frozenset(read))


def _cache_key(
    base: DictConfig,
    rows: Mapping[str, Mapping[str, Any]],
    fixed: Sequence[str],
    params: Mapping[str, Sequence[str]],
) -> str:
    """All that decides a composition: every configuration folder, packages, overrides."""
    here = Path(__file__).parent
    told = [_packages(), list(fixed), dict(params), dict(rows), _environment()]
    digest = hashlib.sha1(_digest([config.config_dir().absolute(), *_sources(base)]).encode())
    for file in (here / "sweep.py", here / "expansion.py", here / "config.py"):
        digest.update(str(file).encode() + file.read_bytes())
    digest.update(json.dumps(told, default=str).encode())
    return digest.hexdigest()


def _sources(cfg: DictConfig) -> list[Path]:
    """The folders on the disk that a composition looked into."""
    found = [s.path for s in cfg.hydra.runtime.config_sources if s.schema == "file"]
    return [Path(path).absolute() for path in found]


def _folders(overrides: Sequence[str]) -> list[Path]:
    """The configuration folders that some overrides name, and the shipped one."""
    return [f.absolute() for f in (config.config_dir(), *config.search_folders(overrides))]


def _digest(folders: Sequence[Path]) -> str:
    """Of the content of every configuration file in some folders."""
    files = [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]
    stamps = [(str(f), (stat := f.stat()).st_mtime_ns, stat.st_size, stat.st_ino) for f in files]
    return _digest_of(tuple(stamps))


@lru_cache(maxsize=8)  # as long as no file changes, one reading serves all experiments
def _digest_of(stamps: tuple[tuple[str, int, int, int], ...]) -> str:
    digest = hashlib.sha1()
    for name, *_ in stamps:
        digest.update(name.encode() + Path(name).read_bytes())
    return digest.hexdigest()


def _packages() -> list[str]:
    return [f"{p}=={version(p)}" for p in ("hydra-core", "omegaconf", "semimedref")]


def _environment() -> list[str]:
    return [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("SEMIMEDREF_")]
