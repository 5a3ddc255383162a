"""What an analysis found: numbers for a file, lines for the terminal, figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semimedref.files import write_atomic
from semimedref.results.figure.contract import Figure

_SEAM = "  "


@dataclass(frozen=True)
class Finding:
    """Numbers as fractions between 0 and 1; the printed lines are in percent where that is said."""

    title: str
    numbers: dict[str, Any]
    lines: Sequence[Sequence[str]]  # the first is the heading
    notes: Sequence[str]
    figure: Figure
    pictures: dict[str, Callable[[], Figure]] = field(default_factory=dict)  # further ones
    cases: Sequence[Sequence[object]] = ()  # one line an image, the first is the heading

    def write(self, folder: Path, name: str) -> list[Path]:
        """The figure with the numbers in its ``NAME.json``, and what else there is; the paths."""
        paths = self.figure.write(folder, name, numbers=self.numbers)
        if self.cases:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(self.cases)
            paths.append(folder / f"{name}_per_image.csv")
            write_atomic(paths[-1], text.getvalue())
        for kind, picture in self.pictures.items():
            paths += picture().write(folder, f"{name}_{kind}")
        return paths

    def text(self) -> str:
        """Title, aligned table and notes."""
        widths = [max(len(line[i]) for line in self.lines) for i in range(len(self.lines[0]))]
        out = [self.title, ""]
        for number, line in enumerate(self.lines):
            cells = [
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            out.append(_SEAM.join(cells).rstrip())
            if number == 0:
                out.append("─" * (sum(widths) + len(_SEAM) * (len(widths) - 1)))
        return "\n".join([*out, "", *self.notes])


def percent(value: float, interval: Sequence[float] | None = None) -> str:
    """A fraction as percent, with its interval if there is one."""
    shown = f"{100 * value:.2f}"
    if interval is None:
        return shown
    return f"{shown} [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"
