"""Which MLflow run is a folder's own.

Two people of a lab who train the same cell have the same signature on the same server, so each
folder also has an origin, drawn once: nobody writes into, or retires, the run of another folder.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.address import shown_uri
from semimedref.files import write_atomic
from semimedref.tracking import layout
from semimedref.tracking.record import Record
from semimedref.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run

_MOST = 1000  # runs of one signature in one experiment
_NOTE = "mlflow.json"


def read_note(folder: Path) -> dict[str, str]:
    """What the folder knows about its MLflow run: origin, uri, run_id, experiment_id."""
    try:
        return json.loads((folder / _NOTE).read_text())
    except (FileNotFoundError, ValueError):  # never written, or torn: origin or values find the run
        return {}


def find(record: Record, store: Store) -> Run | None:
    """The MLflow run of this folder; copies of it go to MLflow's trash.

    A request to create a run is repeated when its answer is lost, so a run can be there twice.
    """
    note = read_note(record.folder)
    here = note.get("uri") == shown_uri(store.uri) and {"run_id", "experiment_id"} <= note.keys()
    places = {store.experiment_id} | ({note["experiment_id"]} if here else set())
    wanted = f"tags.signature = '{record.run['signature']}'"
    runs = store.client.search_runs(sorted(places), wanted, max_results=_MOST)
    noted = [run for run in runs if here and run.info.run_id == note["run_id"]]
    origin = note.get("origin")
    own = [run for run in runs if origin and run.data.tags.get("origin") == origin]
    own.sort(key=lambda run: (-len(run.data.metrics), run.info.run_id))
    found = next(iter([*noted, *own]), None)
    for copy in own:
        if copy.info.run_id != found.info.run_id:
            store.client.delete_run(copy.info.run_id)
    if found is None and not origin:
        found = next((run for run in runs if _same_training(run, record, store)), None)
    return found


def create(record: Record, store: Store) -> Run:
    """A new MLflow run, with everything by which it is found again."""
    origin = _origin(record.folder)  # on disk before MLflow has it
    return store.client.create_run(
        store.experiment_id,
        start_time=int(record.run["created"] * 1000),
        run_name=layout.run_title(record.run),
        tags=record.tags() | {"origin": origin},
    )


def retire(run: Run, store: Store) -> None:
    """Keep a run whose numbers are no longer the folder's, but never find it again."""
    store.client.set_tag(run.info.run_id, "status", "superseded")
    store.client.set_terminated(run.info.run_id, "KILLED")
    store.client.delete_tag(run.info.run_id, "signature")  # last: until then it is found again


def remember(record: Record, run: Run, store: Store) -> str:
    """Note in the folder which run is its own; returns the folder's origin."""
    folder = record.folder
    origin = read_note(folder).get("origin") or run.data.tags.get("origin") or _origin(folder)
    note = {
        "origin": origin,
        "uri": shown_uri(store.uri),
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
    }
    if note != read_note(folder):
        write_atomic(folder / _NOTE, json.dumps(note, indent=2) + "\n")
    return origin


def _origin(folder: Path) -> str:
    note = read_note(folder)
    if "origin" not in note:
        note["origin"] = uuid.uuid4().hex
        write_atomic(folder / _NOTE, json.dumps(note, indent=2) + "\n")
    return note["origin"]


def _same_training(run: Run, record: Record, store: Store) -> bool:
    """Whether values of run and folder were written at the same milliseconds.

    This finds the run of a folder that has lost its mlflow.json, or was moved here without it.
    """
    points = record.points()
    shared = sorted({key for key, _ in points} & set(run.data.metrics))
    if not shared:
        return False
    history = store.client.get_metric_history(run.info.run_id, shared[0])
    there = {(metric.step, metric.timestamp) for metric in history}
    return any((p.step, p.time) in there for p in points.values() if p.key == shared[0])
