"""Qualitative panels: the rows of a table on the same test cases, chosen by a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semimedref.errors import UserError
from semimedref.results import store
from semimedref.results.figure import cases, panels, scores
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.runs import Run
from semimedref.results.table import Entry, Table

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure as Canvas

    from semimedref.analysis.bootstrap import Floats
    from semimedref.dataset.loaders import Pool
    from semimedref.run import Parts

_MOST = 5  # rows beside each other: first and last, and those before the last


@dataclass(frozen=True)
class Shown:
    """A test case as all rows see it."""

    id: str
    why: str
    text: str
    image: np.ndarray  # (H, W) uint8
    truth: np.ndarray  # (H, W) bool
    predictions: tuple[np.ndarray, ...]  # (H, W) bool, one a row
    dice: tuple[float, ...]


def qualitative(table: Table, overrides: Sequence[str] = ()) -> Figure:
    """Panels of the table's first group of columns in which every row is finished.

    Args:
        table: whose rows are shown.
        overrides: of the runs' configurations on this machine, e.g. ``dataset.root=…``.
    """
    column, runs = rows_to_show(table)
    frames = {row: store.load_per_image(run.folder) for row, run in runs.items()}
    ids, dice = cases.dice_table(frames)
    picks = cases.choose(ids, dice)
    shown = read(list(runs.values()), picks, dice[[ids.index(case) for case in picks]], overrides)
    where = scores.column_name(column)
    first = next(iter(runs.values()))
    left_out = len(table.rows) > len(runs)
    which = " Of the table, the first finished row and the last ones are shown." if left_out else ""
    return Figure(
        title=f"Qualitative panels: {table.title}{f', {where}' if where else ''}",
        caption=(
            f"{len(shown)} of {len(ids)} test cases{f' at {where}' if where else ''}, {table.over} "
            f"{first.seed}: sentence, image with the true mask, and the prediction of each row "
            f"with its Dice in percent. {panels.COLORS_IN_WORDS} {cases.RULE}.{which}"
        ),
        table=_numbers(shown, list(runs)),
        sources=[run.folder.name for run in runs.values()],
        draw=partial(_draw, shown, list(runs)),
    )


def rows_to_show(table: Table) -> tuple[tuple[str, ...], dict[str, Run]]:
    """The column value with the most finished rows, and a finished run of each, of one seed."""
    scores.require_results(table)
    found = [(column, _of_one_seed(entries)) for column, entries in table.groups]
    column, runs = max(found, key=lambda pair: len(pair[1]))
    if not runs:
        raise UserError(f"no row of {table.name} shows the plain test of its runs")
    if len(runs) > _MOST:
        names = list(runs)
        runs = {name: runs[name] for name in (names[0], *names[1 - _MOST :])}
    return column, runs


def read(
    runs: Sequence[Run], picks: dict[str, str], dice: Floats, overrides: Sequence[str]
) -> list[Shown]:
    """Open each run once and let it predict all chosen cases."""
    predictions, pool, places = [], None, []
    for run in runs:
        parts = _open(run.folder, [f"overlays={run.cell.config['overlays']}", *overrides])
        pool = parts.pool("test")
        places = [pool.split.ids.index(case) for case in picks]
        predictions.append(_predict(parts, pool, places))
    assert pool is not None
    shown = []
    for k, ((case, why), at) in enumerate(zip(picks.items(), places, strict=True)):
        batch = pool.fetch([at])
        assert batch.mask is not None  # of a test split
        image = np.clip(np.round(batch.image[0, 0].float().numpy()), 0, 255).astype(np.uint8)
        masks = tuple(row[k] for row in predictions)
        truth = batch.mask[0, 0].numpy() > 0
        values = tuple(float(v) for v in dice[k])
        shown.append(Shown(case, why, pool.split.texts[at], image, truth, masks, values))
    return shown


def _open(folder: Path, overrides: Sequence[str]) -> Parts:
    """The run with its best weights; refused where its images are of patients and unasked for."""
    from semimedref import checkpoint
    from semimedref.run import Parts, finished_config

    parts = Parts.build(finished_config(folder, overrides))
    if not parts.may_show():
        raise UserError(
            f"images of {parts.cfg.dataset.name} are of patients or overlays=never: add "
            "overlays=always to draw them"
        )
    if not parts.method.segments:
        raise UserError(f"{folder.name} predicts no masks: there is nothing to show")
    parts.method.load_weights(checkpoint.pick(checkpoint.load(folder / "best.pt"), "weights"))
    return parts


def _predict(parts: Parts, pool: Pool, places: list[int]) -> list[np.ndarray]:
    from semimedref.evaluate import predict_pool

    found = predict_pool(parts.method, pool, places, parts.hardware)
    return [probability >= parts.threshold for probability in found]


def _of_one_seed(entries: Sequence[Entry]) -> dict[str, Run]:
    """A finished run of each row: of the seed that most rows have finished."""
    entries = scores.plain(entries)
    seeds = [run.seed for entry in entries for run in entry.done]
    if not seeds:
        return {}
    seed = max(dict.fromkeys(seeds), key=seeds.count)
    return {entry.row: run for entry in entries for run in entry.done if run.seed == seed}


def _numbers(shown: Sequence[Shown], rows: Sequence[str]) -> list[list[Cell]]:
    lines: list[list[Cell]] = [
        ["case", "chosen as", "sentence", "true pixels", *(f"Dice, {row}" for row in rows)]
    ]
    for case in shown:
        dice = [scores.percent(value) for value in case.dice]
        lines.append([case.id, case.why, case.text, int(case.truth.sum()), *dice])
    return lines


def _draw(shown: Sequence[Shown], rows: Sequence[str]) -> Canvas:
    lines = []
    for case in shown:
        cells: list[panels.Picture | str] = [f"{case.text}\n({case.why})"]
        cells.append(panels.Picture(case.image, case.truth, case.truth))
        for mask, dice in zip(case.predictions, case.dice, strict=True):
            cells.append(panels.Picture(case.image, case.truth, mask, foot=f"{100 * dice:.1f}"))
        lines.append(cells)
    return panels.grid(["report", "truth", *rows], lines, legend=True)
