"""Keep the MLflow run of a folder equal to the folder; pushing twice changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from semimedref.files import exclusive
from semimedref.tracking import identity, layout
from semimedref.tracking.known import Known, Place, contradicts, known_of, look_up
from semimedref.tracking.record import Point, Record, read_record
from semimedref.tracking.send import send
from semimedref.tracking.store import Store


def sync_run(folder: Path, store: Store, *, leaving: bool = False, verify: bool = False) -> int:
    """Make the MLflow run of this folder equal to the folder.

    Args:
        folder: The run folder.
        store: Where to.
        leaving: The caller trains this run and is about to leave it.
        verify: Compare every value, also where MLflow's last one says that all are there.

    Returns:
        How many params, tags, metric values and files were sent; 0 when all were there.
    """
    return Feed(folder, store).push(leaving=leaving, verify=verify)


class Feed:
    """One folder and its MLflow run; remembers what is there, so that an epoch is one request."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self._store = folder, store
        self._known: Known | None = None

    def push(self, *, leaving: bool = False, verify: bool = False) -> int:
        """Send what is new; `sync_run` says what the arguments mean.

        After an exception use another feed: what had arrived before it is not known.
        """
        with exclusive(self._folder / ".mlflow.lock"):
            record = read_record(self._folder, leaving=leaving)
            points = record.points()
            if self._known is None or contradicts(self._known.values, points):
                self._known = _meet(record, points, store=self._store, verify=verify)
            return send(record, points, self._known, self._store)


def _meet(record: Record, points: Mapping[Place, Point], *, store: Store, verify: bool) -> Known:
    """What MLflow holds of this folder's run, which is made if there is none."""
    run = identity.find(record, store)
    if run and run.data.tags.get("layout") != layout.VERSION:
        store.client.delete_run(run.info.run_id)  # into MLflow's trash; the folder has it all
        run = None
    if run:
        known = known_of(run, identity.remember(record, run, store))
        look_up(known, run, record, store=store, verify=verify)
        if not contradicts(known.values, points):
            return known
        identity.retire(run, store)
    run = identity.create(record, store)
    return known_of(run, identity.remember(record, run, store))
