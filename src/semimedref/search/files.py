"""The files of a search under ``tables/``: the list of trials as Markdown and CSV."""

from __future__ import annotations

from pathlib import Path

from semimedref.files import write_atomic
from semimedref.search import text
from semimedref.search.view import View


def write_table(view: View, out: str, *, style: bool) -> int:
    """Print the trials from the best to the worst and write them; returns the exit code."""
    folder = Path(out) if out else view.search.run_root / "tables"
    files = {
        folder / f"{view.search.name}.md": text.markdown(view),
        folder / f"{view.search.name}.csv": text.csv_text(view),
    }
    print(text.table(view, style=style), end="", flush=True)
    for path, content in files.items():
        write_atomic(path, content)
    print(f"\nwritten: {', '.join(map(str, files))}")
    return 0
