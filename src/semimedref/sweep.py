"""The cells of a table: rows x params of an experiment file, each with its signature.

``semimedref train -m``, ``status``, ``table`` and ``report`` all expand the same file here, so a
table can only show what a sweep would run.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config
from semimedref.errors import UserError
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class Cell:
    """One run of a table: a row at one point of the params."""

    row: str
    point: dict[str, str]
    overrides: tuple[str, ...]
    config: dict[str, Any]
    signature: str
    name: str


@dataclass(frozen=True)
class Experiment:
    """A table: its cells in order, and how they are shown."""

    name: str
    title: str
    columns: list[str]
    over: str
    metrics: list[str]
    run_root: Path
    cells: list[Cell]
    overrides: tuple[str, ...] = ()  # the words that named it
    cost: tuple[str, ...] = ()  # numbers that are counted from each row's network, trained or not
    overhead: str | None = None  # the row whose cost is also shown as what it adds
    ladder: bool = False  # each row adds a part to the row before: test every step too


def expand(overrides: list[str]) -> Experiment:
    """Every cell of an experiment, e.g. for ``["experiment=quickstart", "ratio=2pct"]``."""
    fixed, swept = _split(overrides)
    base = config.compose(fixed)
    if "table" not in base:
        raise UserError(
            "no experiment is named: add experiment=NAME, e.g. experiment=quickstart "
            f"(known: {', '.join(known_experiments())})"
        )
    params = {k: _values(v) for k, v in base.hydra.sweeper.params.items()}
    pinned = {o.split("=", 1)[0]: o.split("=", 1)[1] for o in fixed if "=" in o}
    _check_rows(base, [*pinned, *swept])
    params = {k: v for k, v in params.items() if k not in pinned} | swept
    shown = {k: [pinned[k]] for k in (*base.table.columns, base.table.over) if k in pinned}
    cells = _cells(base, fixed, shown | params)
    return Experiment(
        name=base.experiment_name,
        title=base.table.title,
        columns=list(base.table.columns),
        over=base.table.over,
        metrics=list(base.table.metrics),
        run_root=Path(base.run_root),
        cells=cells,
        overrides=tuple(overrides),
        cost=tuple(base.table.get("cost") or ()),
        overhead=base.table.get("overhead"),
        ladder=bool(base.table.get("ladder")),
    )


def select(cells: list[Cell], only: Any) -> list[Cell]:  # noqa: ANN401 - a number, label or list
    """The cells that ``only=`` names: numbers, row labels, signatures or folder names."""
    if only is None:
        return cells
    wanted = [str(w) for w in (only if isinstance(only, list | tuple) else [only])]
    known = {w for i, c in enumerate(cells) for w in (str(i), c.row, c.signature, c.name)}
    unknown = [w for w in wanted if w not in known]
    if unknown:
        rows = ", ".join(f"'{r}'" for r in dict.fromkeys(c.row for c in cells))
        raise UserError(
            f"only={unknown[0]} names no cell: expected a number from 0 to {len(cells) - 1} "
            f"or a row ({rows})"
        )
    return [
        c
        for i, c in enumerate(cells)
        if any(w in (str(i), c.row, c.signature, c.name) for w in wanted)
    ]


def known_experiments() -> list[str]:
    """Names of the shipped experiment files."""
    return sorted(f.stem for f in (config.config_dir() / "experiment").glob("*.yaml"))


def _cells(base: DictConfig, fixed: list[str], params: dict[str, list[str]]) -> list[Cell]:
    """Compose each cell once; compositions are kept on disk, signatures are always made anew."""
    from omegaconf import OmegaConf

    rows = OmegaConf.to_container(base.hydra.sweeper.rows) or {"": {}}
    cache = _cache_folder() / f"{_cache_key(base, fixed, params, rows)}.json"
    if cache.exists():
        return [_signed_cell(**entry) for entry in json.loads(cache.read_text())]
    entries = []
    for row, changes in rows.items():
        for values in itertools.product(*params.values()):
            point = dict(zip(params, values, strict=True))
            entries.append(_compose_cell(row, changes, point, fixed))
    write_atomic(cache, json.dumps(entries))
    return [_signed_cell(**entry) for entry in entries]


def _compose_cell(
    row: str, changes: dict[str, Any], point: dict[str, str], fixed: list[str]
) -> dict[str, Any]:
    own = [f"{key}={_hydra_value(value)}" for key, value in changes.items()]
    own += [f"{key}={value}" for key, value in point.items()]
    named = {o.split("=", 1)[0] for o in own}
    kept = [o for o in fixed if o.split("=", 1)[0] not in named]
    overrides = [*kept, *own, f"row={_hydra_value(row)}"]
    plain = config.resolved(config.compose(overrides))
    return {"row": row, "point": point, "overrides": overrides, "plain": plain}


def _signed_cell(
    *, row: str, point: dict[str, str], overrides: list[str], plain: dict[str, Any]
) -> Cell:
    """Weights may have changed since the composition was kept: their content is signed now."""
    signature, name = config.signature(plain), config.run_name(plain)
    return Cell(row, point, tuple(overrides), plain, signature, name)


def _check_rows(base: DictConfig, keys: list[str]) -> None:
    """A key that a row sets itself cannot be set for all rows."""
    for row, changes in base.hydra.sweeper.rows.items():
        taken = [key for key in keys if key in changes]
        if taken:
            raise UserError(
                f"{taken[0]}= is set by the row '{row}' of experiment={base.experiment_name}: "
                f"leave it out, or train one run without experiment="
            )


def _hydra_value(value: Any) -> str:  # noqa: ANN401 - a YAML value
    """A value in the grammar of Hydra's command line."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{','.join(map(_hydra_value, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{k}:{_hydra_value(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def _split(overrides: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Overrides with one value, and those that sweep over several (``ratio=2pct,15pct``)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    fixed, swept = [], {}
    for parsed in OverridesParser.create().parse_overrides(overrides):
        if parsed.is_sweep_override():
            swept[parsed.get_key_element()] = list(parsed.sweep_string_iterator())
        else:
            fixed.append(parsed.input_line)
    return fixed, swept


def _values(given: Any) -> list[str]:  # noqa: ANN401 - a YAML scalar or list
    parts = str(given).split(",") if isinstance(given, str | int | float) else given
    return [str(v).strip() for v in parts]


def _cache_key(
    base: DictConfig, fixed: list[str], params: dict[str, list[str]], rows: dict[str, Any]
) -> str:
    """All that decides a composition: every configuration folder, packages, overrides."""
    digest = hashlib.sha1()
    here = Path(__file__).parent
    folders = [Path(s.path) for s in base.hydra.runtime.config_sources if s.schema == "file"]
    files = [
        f for folder in (config.config_dir(), *folders) for f in sorted(folder.rglob("*.yaml"))
    ]
    for file in (*files, here / "sweep.py", here / "config.py"):
        digest.update(str(file).encode() + file.read_bytes())
    packages = [f"{p}=={version(p)}" for p in ("hydra-core", "omegaconf", "semimedref")]
    digest.update(json.dumps([packages, fixed, params, rows, _environment()]).encode())
    return digest.hexdigest()


def _environment() -> list[str]:
    return [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("SEMIMEDREF_")]


def _cache_folder() -> Path:
    named = os.environ.get("SEMIMEDREF_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "semimedref") / "expansions"
