"""What an experiment holds, in one request: hundreds of folders need none of their own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.address import shown_uri
from semimedref.tracking.identity import read_note
from semimedref.tracking.record import Record
from semimedref.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run

_PAGE = 500  # runs a request; each comes with all its params and last values


class Catalog:
    """The runs of one experiment by id, as they were when it was read."""

    def __init__(self, store: Store) -> None:
        runs = _all_runs(store)
        self._place = shown_uri(store.uri), store.experiment_id
        self._images = store.images
        self._mirrored = {run.info.run_id: run.data.tags.get("mirrored") for run in runs}
        self._copies = Counter(run.data.tags.get("origin") for run in runs)

    def holds(self, folder: Path, record: Record) -> bool:
        """Whether a sync that went to its end has sent this folder as it is now."""
        note = read_note(folder)
        if (note.get("uri"), note.get("experiment_id")) != self._place:
            return False
        if record.status == "running" or self._copies[note.get("origin")] != 1:
            return False
        return self._mirrored.get(note["run_id"]) == record.digest(self._images)


def _all_runs(store: Store) -> list[Run]:
    runs: list[Run] = []
    token = None
    while True:
        page = store.client.search_runs([store.experiment_id], max_results=_PAGE, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs
