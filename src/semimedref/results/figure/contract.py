"""What every figure is: a drawing, a caption that explains it, a table of its numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref.files import write_atomic
from semimedref.results.figure import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Cell = str | int | float | None

# What a file says about itself besides the drawing: no dates, so that equal data give equal bytes.
_FORMATS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"metadata": {"Software": None}, "dpi": 300},
}


@dataclass(frozen=True)
class Figure:
    """A figure before it is drawn; numbers in its table are what the marks show."""

    title: str
    caption: str  # whole sentences: what is shown, of how many, what the bars are
    table: Sequence[Sequence[Cell]]  # the first line is the heading
    sources: Sequence[str]  # names of the run folders
    draw: Callable[[], Canvas]

    def write(
        self, folder: Path, name: str, *, numbers: Mapping[str, object] | None = None
    ) -> list[Path]:
        """``NAME.svg``, ``.pdf``, ``.png``, ``.csv`` and ``.json``; returns their paths.

        Args:
            folder: is made.
            name: of the files.
            numbers: further keys of the JSON file.
        """
        files: dict[str, bytes | str] = dict(self.drawn())
        files["csv"] = self.csv_text()
        about = {"title": self.title, "caption": self.caption, "table": self.table}
        described = {**(numbers or {}), **about, "sources": list(self.sources)}
        files["json"] = json.dumps(described, indent=1, ensure_ascii=False) + "\n"
        paths = []
        for kind, content in files.items():
            paths.append(folder / f"{name}.{kind}")
            write_atomic(paths[-1], content)
        return paths

    def drawn(self) -> dict[str, bytes]:
        """The drawing in every format."""
        import matplotlib

        files = {}
        with matplotlib.rc_context(style.RC):
            for kind, options in _FORMATS.items():
                buffer = io.BytesIO()
                # Drawn anew for each: a layout that was solved once moves when it is solved again.
                self.draw().savefig(buffer, format=kind, **options)
                files[kind] = buffer.getvalue()
        return files

    def csv_text(self) -> str:
        """The table as CSV; what is unknown is empty."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.table)
        return text.getvalue()
