"""Check the published tables themselves: do Dice and mIoU of one cell belong together?

Both pool the counts of the whole test set in the paper's definition, so mIoU = D / (2 − D) must
hold in every cell. Averaging over seeds moves mIoU up by less than 0.1 points at a deviation of
2 points; rounding by 0.02.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.results.grid import grid
from semimedref.results.reported import (
    Family,
    PaperTable,
    expected_miou,
    family_of,
    known_tables,
    load_table,
    tolerance,
)
from semimedref.results.wording import option

_WORDS: dict[Family, str] = {
    "dataset": "agrees",
    "near": "differs a little",
    "other": "another metric family",
}


@dataclass(frozen=True)
class Pair:
    """Dice and mIoU of one cell of a published table, in percent."""

    table: str
    row: str
    place: tuple[str, ...]
    dice: float
    miou: float
    family: Family

    @property
    def apart(self) -> float:
        """How far mIoU lies from D / (2 − D), in points."""
        return self.miou - expected_miou(self.dice)


def audit_command(args: Sequence[str]) -> int:
    """``semimedref audit [table=NAME] [all=true] [out=FILE.csv]``: print what does not agree."""
    from semimedref.options import parse

    options = parse(
        list(args), command="audit", required=(), optional={"table": "", "all": "false", "out": ""}
    )
    names = options["table"].split(",") if options["table"] else known_tables()
    if options["all"] not in ("true", "false"):
        raise UserError(f"all={options['all']}: expected true or false")
    pairs = [pair for name in names for pair in pairs_of(load_table(name))]
    print(report(pairs, everything=options["all"] == "true"), end="")
    if options["out"]:
        write_atomic(Path(options["out"]), csv_text(pairs))
        print(f"written: {options['out']}")
    return 0


def pairs_of(table: PaperTable) -> list[Pair]:
    """Every cell of a table that reports both."""
    cells: dict[tuple[str, ...], dict[str, float]] = {}
    for record in table.records:
        place = tuple(v for k, v in record.items() if k not in ("row", "metric", "value") and v)
        cells.setdefault((record["row"], *place), {})[record["metric"]] = float(record["value"])
    return [
        Pair(table.name, row, tuple(place), v["dice"], v["miou"], family_of(v))
        for (row, *place), v in cells.items()
        if "dice" in v and "miou" in v
    ]


def report(pairs: Sequence[Pair], *, everything: bool) -> str:
    """The cells that do not agree, worst first, and how many do."""
    shown = [p for p in pairs if everything or p.family != "dataset"]
    head = ("table", "row", "place", "reading", "Dice", "mIoU", "D/(2−D)", "apart")
    lines = [head, *(_line(p) for p in sorted(shown, key=lambda p: -abs(p.apart)))]
    out = grid(lines, left=4) if shown else []
    return "\n".join([*out, "", *_summary(pairs)]) + "\n"


def csv_text(pairs: Iterable[Pair]) -> str:
    """All cells, one line each."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["table", "row", "place", "dice", "miou", "expected_miou", "apart", "family"])
    for p in pairs:
        numbers = [p.dice, p.miou, f"{expected_miou(p.dice):.3f}", f"{p.apart:.3f}"]
        writer.writerow([p.table, p.row, " ".join(p.place), *numbers, p.family])
    return buffer.getvalue()


def _line(pair: Pair) -> tuple[str, ...]:
    return (
        pair.table,
        pair.row,
        ", ".join(map(option, pair.place)),
        _WORDS[pair.family],
        f"{pair.dice:.2f}",
        f"{pair.miou:.2f}",
        f"{expected_miou(pair.dice):.2f}",
        f"{pair.apart:+.2f}",
    )


def _summary(pairs: Sequence[Pair]) -> list[str]:
    count = {family: sum(p.family == family for p in pairs) for family in _WORDS}
    rows = dict.fromkeys(p.row for p in pairs if p.family == "other")
    lines = [
        f"{len(pairs)} published pairs of Dice and mIoU: {count['dataset']} agree with mIoU = "
        f"D / (2 − D) within rounding, {count['near']} differ by up to {tolerance():g} point, "
        f"{count['other']} by more."
    ]
    if rows:
        lines.append(
            f"More than {tolerance():g} point: {', '.join(rows)}. Such a pair cannot come from "
            "counts that are pooled over the whole test set; means over images are a common other "
            "definition. It says nothing about which definition is better, only that the numbers "
            "do not measure the same: no table here takes a difference or marks a best across them."
        )
    return lines
