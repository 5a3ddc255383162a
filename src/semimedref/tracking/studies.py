"""Which searches a run serves: tags of its MLflow run, from the notes in its folder."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from semimedref.folder import STOPPED, STUDIES


def study_tags(folder: Path) -> dict[str, str]:
    """``study`` and ``trial``, several where a run serves several studies, and why it stopped."""
    notes = []
    for path in sorted((folder / STUDIES).glob("*.json")):
        with suppress(FileNotFoundError, ValueError, KeyError):  # one that goes is no tag
            note = json.loads(path.read_text())
            notes.append((str(note["study"]), " ".join(map(str, note["trials"]))))
    tags = {"study": ", ".join(n for n, _ in notes), "trial": ", ".join(t for _, t in notes)}
    with suppress(FileNotFoundError, ValueError, KeyError):
        stopped = json.loads((folder / STOPPED).read_text())
        tags["stopped"] = f"after epoch {stopped['epoch']}: {stopped['reason']}"
    return {key: value for key, value in tags.items() if value}
