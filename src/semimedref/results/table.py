"""Build an experiment's table from its run folders: rows × columns × metrics over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.config import labels
from semimedref.errors import UserError
from semimedref.results import cost, mixture, notes, reading, resources, scoring
from semimedref.results.index import Index
from semimedref.results.noise import Gap, gap
from semimedref.results.reported import Reported, load_table
from semimedref.results.resampling import Resampling
from semimedref.results.runs import Run, column_of, read_runs
from semimedref.results.scoring import Score

if TYPE_CHECKING:
    from semimedref.sweep import Experiment

__all__ = ["MIN_TEXT_GAP", "Entry", "Score", "Table"]

MIN_TEXT_GAP = 0.05  # below it no text gain is claimed
_RECONSTRUCTION = "_recon"  # ends the name of a model or method rebuilt from a description


@dataclass(frozen=True)
class Entry:
    """One line of the table: a row label at one column value, over its seeds.

    A row whose method is not built has no runs: the paper's values are all that is known of it.
    """

    row: str
    column: tuple[str, ...]
    runs: tuple[Run, ...]
    scores: dict[str, Score]
    cost: dict[str, float] = field(default_factory=dict)  # counted, or measured by its runs
    reported: dict[str, Reported] = field(default_factory=dict)  # the paper's values, by metric
    gaps: dict[str, Gap] = field(default_factory=dict)  # ours minus the paper's
    problems: tuple[str, ...] = ()  # what its finished runs lack

    @property
    def done(self) -> tuple[Run, ...]:
        """The finished runs, in the order of the seeds."""
        return tuple(run for run in self.runs if run.result is not None)

    @property
    def complete(self) -> bool:
        """Whether every seed is finished."""
        return len(self.done) == len(self.runs)

    @property
    def plain(self) -> bool:
        """Whether the line shows the plain test of its runs, which ``per_image.csv`` holds."""
        return all(reading.axis_of(run.cell) is None for run in self.runs)


@dataclass(frozen=True)
class Table:
    """A whole table; entries are grouped by column value, rows in the experiment's order."""

    name: str
    title: str
    columns: tuple[str, ...]
    over: str
    metrics: tuple[str, ...]
    entries: tuple[Entry, ...]
    run_root: Path
    resampling: Resampling  # how its intervals and tests are drawn
    cost: tuple[str, ...] = ()  # counted, then measured
    overhead: str | None = None
    ladder: bool = False
    controls: tuple[str, ...] = ()  # rows that are no steps of the ladder
    notes: tuple[str, ...] = ()  # all that is said below, remarks on rows among it
    remarks: tuple[str, ...] = ()
    comparisons: tuple[tuple[str, str], ...] = ()  # rows to test; none: each against the first
    remedies: tuple[str, ...] = ()  # commands that make scores of finished runs
    variance: str | None = None

    @property
    def rows(self) -> list[str]:
        """Row labels in order."""
        return list(dict.fromkeys(entry.row for entry in self.entries))

    @property
    def trained(self) -> list[str]:
        """Row labels of methods that are built here: the others have the paper's values alone."""
        return list(dict.fromkeys(entry.row for entry in self.entries if entry.runs))

    @property
    def groups(self) -> list[tuple[tuple[str, ...], list[Entry]]]:
        """Entries by column value: what stands beside each other and is compared."""
        grouped: dict[tuple[str, ...], list[Entry]] = {}
        for entry in self.entries:
            grouped.setdefault(entry.column, []).append(entry)
        return list(grouped.items())

    @property
    def runs(self) -> list[Run]:
        """Every cell, in table order."""
        return [run for entry in self.entries for run in entry.runs]

    @property
    def counted(self) -> list[str]:
        """The costs that are counted from the networks, not measured in the runs."""
        return [name for name in self.cost if name not in resources.NAMES]

    @property
    def chosen(self) -> Entry | None:
        """The line whose cost is shown as overhead."""
        return next((entry for entry in self.entries if entry.row == self.overhead), None)

    @property
    def oracles(self) -> list[float]:
        """The distinct Dice values of the text-blind oracle that the results carry."""
        values = {
            scoring.plain_score(run.result, "dice_text_blind_oracle")
            for run in self.runs
            if run.result
        }
        return sorted(value for value in values if value is not None)


def build_table(experiment: Experiment) -> Table:
    """Look up every cell of an experiment and summarise the finished ones.

    The interval stands beside global Dice. With one seed it is a bootstrap over patients; with
    several, the seed deviation is shown and the interval is hierarchical, over seeds and patients.
    """
    if experiment.search is not None:
        raise UserError(
            f"experiment={experiment.name} is a search, which has no table of test scores: "
            f"`semimedref table experiment={experiment.name}` lists its trials"
        )
    runs = read_runs(experiment)
    metrics = scoring.metrics(experiment, runs)
    with Index.open(Path(experiment.run_root)) as index:
        entries = _entries(experiment, runs, metrics, index=index)
    damaged = [f"Warning: {run.problem}." for run in runs if run.problem]
    damaged += [f"Warning: {line}." for entry in entries for line in entry.problems]
    return Table(
        name=experiment.name,
        title=experiment.title,
        columns=tuple(experiment.columns),
        over=experiment.over,
        metrics=metrics,
        entries=tuple(entries),
        run_root=Path(experiment.run_root),
        resampling=Resampling(**experiment.statistics),
        cost=(*experiment.cost, *experiment.resources),
        overhead=experiment.overhead,
        ladder=experiment.ladder,
        controls=experiment.controls,
        notes=(
            *notes.notes(experiment, entries),
            *notes.data_warnings(runs),
            *mixture.warnings(entries),
            *dict.fromkeys(damaged),
        ),
        remarks=tuple(notes.remarks(experiment, entries)),
        comparisons=experiment.comparisons,
        remedies=tuple(scoring.remedies(experiment, runs, metrics)),
        variance=experiment.variance,
    )


def _entries(
    experiment: Experiment, runs: list[Run], metrics: tuple[str, ...], *, index: Index
) -> list[Entry]:
    """Rows of the first column, then of the second, beside the paper's values where that may be."""
    beside = experiment.scale == "paper" and experiment.paper is not None
    paper = load_table(experiment.paper) if beside and experiment.paper else None
    grouped = _grouped(experiment, runs)
    trained = {run.cell.row for run in runs}
    rows = experiment.rows or tuple(dict.fromkeys(run.cell.row for run in runs))
    entries = []
    for place in _places(experiment, grouped):
        column = tuple(place.get(name, "") for name in experiment.columns)
        for row in rows:
            members = grouped.get((column, row), [])
            known = paper.look(row, place) if paper else {}
            if members or (known and row not in trained):
                scores, lacking = scoring.scores(experiment, members, metrics, index=index)
                gaps = _gaps(experiment, members, scores, known)
                costs = _cost(members, experiment)
                entries.append(
                    Entry(row, column, tuple(members), scores, costs, known, gaps, lacking)
                )
    return entries


def _places(
    experiment: Experiment, grouped: dict[tuple[tuple[str, ...], str], list[Run]]
) -> list[dict[str, str]]:
    """Data set, ratio and columns of every column that the experiment names or a cell stands in."""
    found = {tuple(p.get(k, "") for k in experiment.columns): p for p in experiment.places}
    for (column, _), members in grouped.items():
        own = labels(members[0].cell.config) if experiment.paper else {}
        known = {key: own[key] for key in ("dataset", "ratio") if key in own}
        found[column] = known | dict(zip(experiment.columns, column, strict=True))
    return list(found.values())


def _gaps(
    experiment: Experiment,
    runs: list[Run],
    scores: dict[str, Score],
    known: dict[str, Reported],
) -> dict[str, Gap]:
    """Differences to the paper; a reconstruction of a method is not compared with the method."""
    if not known or not runs or _is_reconstruction(runs[0]):
        return {}
    found = {
        metric: gap(scores[metric], value, paper_seeds=experiment.paper_seeds)
        for metric, value in known.items()
        if metric in scores
    }
    return {metric: value for metric, value in found.items() if value is not None}


def _is_reconstruction(run: Run) -> bool:
    named = labels(run.cell.config)
    return any(named[part].endswith(_RECONSTRUCTION) for part in ("model", "method"))


def _grouped(
    experiment: Experiment, runs: Iterable[Run]
) -> dict[tuple[tuple[str, ...], str], list[Run]]:
    """Runs of each table line: all rows of the first column value, then of the second."""
    columns: dict[tuple[str, ...], dict[str, list[Run]]] = {}
    for run in runs:
        rows = columns.setdefault(column_of(run.cell, experiment), {})
        members = rows.setdefault(run.cell.row, [])
        if any(run.seed == other.seed for other in members):
            known = {*experiment.columns, experiment.over}
            extra = ", ".join(sorted(set(run.cell.point) - known)) or "nothing else"
            raise UserError(
                f"{experiment.name}: row {run.cell.row!r} has two cells for {experiment.over}="
                f"{run.seed!r} (also swept: {extra}); expected one, add what is swept to "
                f"`table.columns` of conf/experiment/{experiment.name}.yaml"
            )
        members.append(run)
    return {(column, row): runs for column, rows in columns.items() for row, runs in rows.items()}


def _cost(runs: list[Run], experiment: Experiment) -> dict[str, float]:
    counted = cost.count(runs[0].cell.config) if experiment.cost and runs else {}
    return counted | resources.measured(runs, experiment.resources)
