"""The cells of a table: rows x params of an experiment file, each with its signature.

``semimedref train -m``, ``status``, ``table`` and ``report`` all expand the same file here, so a
table can only show what a sweep would run.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config, expansion
from semimedref.cores import cores
from semimedref.errors import UserError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from semimedref.search.view import View

REPORTED = "reported"  # instead of a row's overrides: its method is not built, the paper's value is
OF_ROWS = "row"  # in ``table.evaluations``: what is read for a row, and not for a column


@dataclass(frozen=True)
class Cell:
    """One run of a table, a row at one point of the params, and how the run is read.

    Attributes:
        evaluation: which scores of the run stand in the cell, e.g. ``{"route": "zero"}`` or
            ``{"domain": "brain_mri"}``; empty: those of the plain test. Several cells may read one
            run.
    """

    row: str
    point: dict[str, str]
    overrides: tuple[str, ...]
    config: dict[str, Any]
    signature: str
    name: str
    evaluation: dict[str, Any] = field(default_factory=dict)


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
    resources: tuple[str, ...] = ()  # numbers that the results of its runs tell
    overhead: str | None = None  # the row whose cost is also shown as what it adds
    ladder: bool = False  # each row adds a part to the row before: test every step too
    controls: tuple[str, ...] = ()  # rows of a ladder that are no step of it
    comparisons: tuple[tuple[str, str], ...] = ()  # rows to test, each with its reference
    rows: tuple[str, ...] = ()  # every row in order, those without cells too
    remarks: dict[str, str] = field(default_factory=dict)  # row -> what is said of it below
    paper: str | None = None  # the paper's table that stands beside it
    paper_seeds: int = 1  # how many runs a value of that table is the mean of
    analyses: dict[str, str] = field(default_factory=dict)  # metric -> what measures it
    variance: str | None = None  # the column whose spread is set against that over the seeds
    scale: str = ""  # the paper's values stand beside results of the scale "paper" alone
    places: tuple[dict[str, str], ...] = ()  # data set, ratio and columns of every column
    statistics: dict[str, Any] = field(default_factory=dict)  # how intervals and tests are drawn
    search: View | None = None  # of a search: its cells are the trials so far, and it has no table


def expand(overrides: list[str]) -> Experiment:
    """Every cell of an experiment, e.g. for ``["experiment=quickstart", "ratio=2pct"]``."""
    fixed, swept = _split(overrides)
    base = expansion.composed(fixed)
    if "search" in base:
        from semimedref.search.view import as_experiment

        _check_name(base, fixed)
        return as_experiment(base, overrides)
    _check_no_range(overrides)
    if "table" not in base:
        raise UserError(
            "no experiment is named: add experiment=NAME, e.g. experiment=quickstart "
            f"(known: {', '.join(known_experiments())})"
        )
    _check_name(base, fixed)
    table = base.table
    pinned = {o.split("=", 1)[0]: o.split("=", 1)[1] for o in fixed if "=" in o}
    _check_rows(base, [*pinned, *swept])
    params = {k: _values(v) for k, v in base.hydra.sweeper.params.items() if k not in pinned}
    shown = {k: [pinned[k]] for k in (*table.columns, table.over) if k in pinned}
    params = shown | params | swept
    return Experiment(
        name=base.experiment_name,
        title=table.title,
        columns=list(table.columns),
        over=table.over,
        metrics=list(table.metrics),
        run_root=Path(base.run_root),
        cells=_cells(base, fixed, params),
        overrides=tuple(overrides),
        cost=tuple(table.get("cost") or ()),
        resources=tuple(str(name) for name in table.get("resources") or ()),
        overhead=table.get("overhead"),
        ladder=bool(table.get("ladder")),
        controls=tuple(str(row) for row in table.get("controls") or ()),
        comparisons=tuple((str(a), str(b)) for a, b in table.get("comparisons") or ()),
        rows=tuple(str(row) for row in base.hydra.sweeper.rows),
        remarks={str(row): str(text) for row, text in (table.get("remarks") or {}).items()},
        paper=table.get("paper"),
        paper_seeds=table.get("paper_seeds") or 1,
        analyses={str(k): str(v) for k, v in (table.get("analyses") or {}).items()},
        variance=table.get("variance"),
        scale=base.scale.name,
        places=_places(base, params),
        statistics=_statistics(base),
    )


def expand_ahead(names: Sequence[str], overrides: list[str]) -> None:
    """Compose the experiments that are new, on all cores; `expand` then finds them on the disk."""
    words = [[f"experiment={name}", *overrides] for name in names]
    words = [one for one in words if not expansion.is_kept(_split(one)[0])]
    if len(words) < 2 or cores() == 1 or threading.active_count() > 1:  # then a fork may hang
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from tqdm import tqdm

    terminal = sys.stderr.isatty()
    if not terminal:
        print(f"composing {len(words)} experiments (once)", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(cores(), mp_context=get_context("fork")) as pool:
        waiting = [pool.submit(_try_to_expand, one) for one in words]
        shown = {"desc": "composing experiments (once)", "leave": False, "disable": not terminal}
        for one in tqdm(waiting, **shown, file=sys.stderr):
            one.result()


def _try_to_expand(words: list[str]) -> None:
    with suppress(Exception):  # it is told where the experiment is asked for
        expand(words)


def known_experiments(folders: list[Path] | None = None) -> list[str]:
    """Names of the shipped experiment files, and of those in further configuration folders."""
    places = [config.config_dir(), *(folders or [])]
    return sorted({f.stem for place in places for f in (place / "experiment").glob("*.yaml")})


def _cells(base: DictConfig, fixed: list[str], params: dict[str, list[str]]) -> list[Cell]:
    """A cell for every row, point and evaluation; weights are signed now, not when composed."""
    from omegaconf import OmegaConf

    written = OmegaConf.to_container(base.hydra.sweeper.rows) or {"": {}}
    rows = {str(row): changes for row, changes in written.items() if changes != REPORTED}
    evaluations = OmegaConf.to_container(base.table.get("evaluations") or OmegaConf.create({}))
    _check_evaluations(base, evaluations)
    of_rows = evaluations.pop(OF_ROWS, {})
    columns = [[(key, *item) for item in values.items()] for key, values in evaluations.items()]
    cells = []
    for entry in expansion.entries(base, rows, fixed=fixed, params=params):
        plain = entry["plain"]
        signature = config.signature(plain)
        name = config.run_name(plain, signed_as=signature)
        for chosen in itertools.product(*columns):
            point = entry["point"] | {key: str(value) for key, value, _ in chosen}
            how = dict(of_rows.get(entry["row"], {}))
            for _, _, part in chosen:
                how |= part
            overrides = tuple(entry["overrides"])
            cells.append(Cell(entry["row"], point, overrides, plain, signature, name, how))
    return cells


def _places(base: DictConfig, params: dict[str, list[str]]) -> tuple[dict[str, str], ...]:
    """Where each column stands: its data set and ratio, and what else the table runs over."""
    known = {"dataset": base.dataset.name, "ratio": f"{100 * base.ratio.fraction:g}pct"}
    evaluations = base.table.get("evaluations") or {}
    values = {
        key: [str(v) for v in evaluations.get(key) or params.get(key) or [known.get(key, "")]]
        for key in base.table.columns
    }
    return tuple(
        known | dict(zip(values, chosen, strict=True))
        for chosen in itertools.product(*values.values())
    )


def _statistics(base: DictConfig) -> dict[str, Any]:
    """The numbers of the group ``statistics``; its class is built where results are read."""
    from omegaconf import OmegaConf

    plain = OmegaConf.to_container(base.statistics, resolve=True)
    return {str(key): value for key, value in plain.items() if key != "_target_"}


def _check_name(base: DictConfig, fixed: list[str]) -> None:
    """A file that inherits another must not write into the other's tables."""
    named = [o.partition("=")[2] for o in fixed if o.startswith("experiment=")]
    if named and str(base.experiment_name) != named[-1].strip("'\""):
        raise UserError(
            f"experiment={named[-1]} says experiment_name: {base.experiment_name}; expected its "
            "own name, which its tables are written under: set experiment_name: "
            f"{named[-1]} (and `# @package _global_` as the first line of the file)"
        )


def _check_evaluations(base: DictConfig, evaluations: dict[str, Any]) -> None:
    """An evaluation is of a row or makes a column."""
    known = [OF_ROWS, *base.table.columns]
    for key in evaluations:
        if key not in known:
            raise UserError(
                f"table.evaluations.{key} of experiment={base.experiment_name} is no column: "
                f"expected one of {', '.join(known)}"
            )


def _check_rows(base: DictConfig, keys: list[str]) -> None:
    """A key that a row sets itself cannot be set for all rows; a remark is of a row that is."""
    for row in base.table.get("remarks") or {}:
        if row not in base.hydra.sweeper.rows:
            raise UserError(
                f"table.remarks of experiment={base.experiment_name} names '{row}', which is no "
                f"row: expected of {', '.join(base.hydra.sweeper.rows)}"
            )
    for row, changes in base.hydra.sweeper.rows.items():
        if isinstance(changes, str):
            if changes != REPORTED:
                raise UserError(
                    f"row '{row}' of experiment={base.experiment_name} is '{changes}': expected "
                    f"its overrides, e.g. {{method: supervised}}, or the word {REPORTED}"
                )
            continue
        taken = [key for key in keys if key in changes]
        if taken:
            raise UserError(
                f"{taken[0]}= is set by the row '{row}' of experiment={base.experiment_name}: "
                f"leave it out, or train one run without experiment="
            )


def _check_no_range(overrides: list[str]) -> None:
    """Refuse ``key=interval(…)`` where nothing draws from it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    for parsed in OverridesParser.create().parse_overrides(overrides):
        if parsed.is_interval_sweep():
            raise UserError(
                f"{parsed.input_line}: a range needs a search; add experiment=search_pacl, say, or "
                "list the values, e.g. align.temperature=0.05,0.1"
            )


def _split(overrides: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Overrides with one value, and those that sweep over several (``ratio=2pct,15pct``)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    fixed, swept = [], {}
    for parsed in OverridesParser.create().parse_overrides(overrides):
        if parsed.is_interval_sweep():
            continue  # of a search, which reads its ranges itself
        if parsed.is_sweep_override():
            swept[parsed.get_key_element()] = list(parsed.sweep_string_iterator())
        else:
            fixed.append(parsed.input_line)
    return fixed, swept


def _values(given: Any) -> list[str]:  # noqa: ANN401 - a YAML scalar or list
    parts = str(given).split(",") if isinstance(given, str | int | float) else given
    return [str(v).strip() for v in parts]
