"""The columns of a printed table: ours, its interval, the paper's value, the difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from semimedref.results import cost, resources, wording

if TYPE_CHECKING:
    from semimedref.results.noise import Gap
    from semimedref.results.reported import Reported
    from semimedref.results.table import Entry, Table

Kind = Literal["score", "ci", "paper", "gap", "cost", "paper_cost", "seeds"]
REPORTED = "reported"  # instead of a number of seeds: the method is not built
_UNMARKED = ("text_gap",)  # a larger one is not a better model
_VERDICTS = {"within": "within", "outside": "outside", "unknown": "few seeds"}


@dataclass(frozen=True)
class Column:
    """One column: what it shows, of which metric."""

    kind: Kind
    metric: str = ""

    def heading(self, table: Table) -> str:
        """Its heading."""
        if self.kind == "seeds":
            return f"{table.over}s"
        name = wording.metric(self.metric)
        texts = {"ci": "95 % CI", "paper": f"{name}, paper", "gap": "Δ",
                 "paper_cost": f"{name}, paper"}  # fmt: skip
        return texts.get(self.kind, name)

    def text(self, entry: Entry) -> str:
        """Its cell in a line."""
        if self.kind == "seeds":
            return f"{len(entry.done)} of {len(entry.runs)}" if entry.runs else REPORTED
        if self.kind == "score":
            return wording.score(entry.scores[self.metric], self.metric)
        if self.kind == "ci":
            return wording.interval(entry.scores[self.metric])
        if self.kind == "cost":
            return _cost(self.metric, entry)
        if self.kind == "gap":
            return _gap(entry.gaps.get(self.metric))
        return _reported(entry.reported.get(self.metric), self)

    def value(self, entry: Entry) -> float | None:
        """What is best when it is largest; None: nothing, or not comparable."""
        if self.metric in _UNMARKED:
            return None
        if self.kind == "score":
            mean = entry.scores[self.metric].mean
            return -mean if mean is not None and self.metric in wording.IN_PIXELS else mean
        if self.kind == "paper":
            known = entry.reported.get(self.metric)
            return known.value if known and known.family != "other" else None
        return None


def columns(table: Table) -> list[Column]:
    """Every column of a table after the row's name."""
    told = {metric for entry in table.entries for metric in entry.reported}
    found = []
    for metric in table.metrics:
        found.append(Column("score", metric))
        found += [Column("ci", metric)] if metric == "dice" else []
        found += [Column("paper", metric)] if metric in told else []
        compared = any(metric in entry.gaps for entry in table.entries)
        found += [Column("gap", metric)] if compared else []
    for name in table.cost:
        found.append(Column("cost", name))
        found += [Column("paper_cost", name)] if name in told else []
    return [*found, Column("seeds")]


def best(table: Table, entry: Entry) -> set[int]:
    """Numbers of the columns in which the line is best, among lines that may be compared.

    Ours count once every built row is complete; the paper's values are compared among themselves.
    """
    rivals = [other for other in table.entries if other.column == entry.column]
    built = [other for other in rivals if other.runs]
    ready = len(built) > 1 and all(other.complete for other in built)
    marked = set()
    for number, column in enumerate(columns(table)):
        if column.kind == "score" and not ready:
            continue
        values = [value for value in map(column.value, rivals) if value is not None]
        if len(values) > 1 and column.value(entry) == max(values):
            marked.add(number)
    return marked


def _cost(name: str, entry: Entry) -> str:
    if name not in entry.cost:
        return "–"
    printed = resources.text if name in resources.NAMES else cost.exact
    return printed(name, entry.cost[name])


def _gap(found: Gap | None) -> str:
    return "" if found is None else f"{found.points:+.2f} {_VERDICTS[found.verdict]}"


def _reported(found: Reported | None, column: Column) -> str:
    if found is None:
        return "–"
    if column.kind == "paper_cost":
        return cost.published(column.metric, found.value)
    spread = f" ± {found.std:.2f}" if found.std is not None and found.own else ""
    return f"{found.value:.2f}{spread}{'°' if found.family == 'other' else ''}"
