"""Problems as a table for people: what, how grave, which cases, what to do."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Sequence

from semimedref.dataset.case import LEVELS, Problem

_HEAD = ("problem", "level", "cases", "fix")
_LEVEL = max(map(len, LEVELS))
_NARROWEST = 60  # of three columns together, in whatever terminal
_WIDEST = 80  # a longer cell moves only its own line


def problem_rows(problems: Sequence[Problem], *, shown: int | None) -> list[tuple[str, ...]]:
    """One row for each kind, the gravest first, with the first ``shown`` cases (None: all)."""
    kinds: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for problem in sorted(problems, key=lambda p: LEVELS.index(p.level)):
        kinds[problem.kind, problem.level, problem.fix].append(problem.case)
    return [(kind, level, _cases(cases, shown), fix) for (kind, level, fix), cases in kinds.items()]


def problem_table(problems: Sequence[Problem], *, shown: int | None) -> str:
    """The rows under their head: one line each in a file or pipe, folded to fit a terminal."""
    rows = [_HEAD, *problem_rows(problems, shown=shown)]
    if sys.stdout.isatty():
        rows = [line for row in rows for line in _folded(row, shutil.get_terminal_size().columns)]
    widths = [min(_WIDEST, max(len(row[i]) for row in rows)) for i in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def summary(problems: Sequence[Problem]) -> str:
    """How many kinds of each level there are."""
    if not problems:
        return "no problems"
    kinds = {(problem.kind, problem.level) for problem in problems}
    counts = [(sum(own == level for _, own in kinds), level) for level in LEVELS]
    return ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for n, level in counts if n)


def _cases(cases: Sequence[str], shown: int | None) -> str:
    first = cases if shown is None else cases[:shown]
    more = ", …" if len(first) < len(cases) else ""
    return f"{len(cases)}: {', '.join(first)}{more}"


def _folded(row: tuple[str, ...], width: int) -> list[tuple[str, ...]]:
    """A row over several lines; names of cases stay whole, so that they can be copied."""
    rest = max(_NARROWEST, width - _LEVEL - 6)
    widths = (rest // 4, _LEVEL, rest // 2, rest // 4)
    cells = [
        textwrap.wrap(cell, own, break_long_words=False, break_on_hyphens=False) or [""]
        for cell, own in zip(row, widths, strict=True)
    ]
    height = max(map(len, cells))
    return [tuple(c[i] if i < len(c) else "" for c in cells) for i in range(height)]
