"""Push what a run folder holds and MLflow lacks; pushing twice changes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from semimedref.tracking import layout
from semimedref.tracking.record import Point, Record, digest, read_record
from semimedref.tracking.settings import shown_uri
from semimedref.tracking.store import Store, locked

if TYPE_CHECKING:
    from mlflow.entities import Run

T = TypeVar("T")

_STATUS = {"done": "FINISHED", "failed": "FAILED", "running": "RUNNING", "paused": "KILLED"}
_METRICS_A_BATCH = 1000  # limits of MLflow's log-batch call
_PARAMS_A_BATCH = 100
# Measurements of the machine differ when a resumed run writes a step again.
_VOLATILE = ("second", "memory")
_TABLES = "mlflow.loggedArtifacts"


def sync_run(folder: Path, store: Store, *, leaving: bool = False) -> int:
    """Make the MLflow run of this folder equal to the folder.

    Args:
        folder: The run folder.
        store: Where to.
        leaving: The caller trains this run and is about to leave it.

    Returns:
        How many params, tags, metric values and files were sent; 0 when all were there.
    """
    with locked(folder / ".mlflow.lock"):
        record = read_record(folder, leaving=leaving)
        points = record.points()
        run = _find(record, store)
        if run and run.data.tags.get("layout") != layout.VERSION:
            store.client.delete_run(run.info.run_id)  # into MLflow's trash; the folder has it all
            run = None
        known = _known(run, points, store) if run else {}
        if run and _contradicts(known, points):
            _retire(run, store)
            run, known = None, {}
        if run is None:
            run = _create(record, store)
        _remember(folder, run, store)
        missing = [point for key, point in points.items() if key not in known]
        sent = _send_values(record, run, missing, store)
        sent += _send_files(record, run, store)
        _set_status(record, run, store)
        return sent


def _find(record: Record, store: Store) -> Run | None:
    """The MLflow run named in mlflow.json, else the one that carries the signature."""
    from mlflow.exceptions import MlflowException

    note = _note(record.folder)
    if note.get("uri") == shown_uri(store.uri):
        try:
            run = store.client.get_run(note.get("run_id"))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
        else:
            same = run.data.tags.get("signature") == record.run["signature"]
            if same and run.info.lifecycle_stage == "active":
                return run
    wanted = f"tags.signature = '{record.run['signature']}'"
    runs = store.client.search_runs([store.experiment_id], wanted, max_results=1)
    return runs[0] if runs else None


def _create(record: Record, store: Store) -> Run:
    return store.client.create_run(
        store.experiment_id,
        start_time=int(record.run["created"] * 1000),
        run_name=layout.run_title(record.run),
        tags={key: record.tags()[key] for key in ("signature", "name", "layout")},
    )


def _retire(run: Run, store: Store) -> None:
    """Keep a run whose numbers are no longer the folder's, but never find it again."""
    store.client.set_tag(run.info.run_id, "status", "superseded")
    store.client.set_terminated(run.info.run_id, "KILLED")
    store.client.delete_tag(run.info.run_id, "signature")  # last: until then it is found again


def _note(folder: Path) -> dict:
    try:
        return json.loads((folder / "mlflow.json").read_text())
    except (FileNotFoundError, ValueError):  # never written, or torn: the signature finds the run
        return {}


def _remember(folder: Path, run: Run, store: Store) -> None:
    note = {
        "uri": shown_uri(store.uri),
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
    }
    if note != _note(folder):
        fresh = folder / ".mlflow.json.new"
        fresh.write_text(json.dumps(note, indent=2) + "\n")
        fresh.replace(folder / "mlflow.json")


def _known(
    run: Run, points: dict[tuple[str, int], Point], store: Store
) -> dict[tuple[str, int], float]:
    """The values that MLflow has for the metrics of this folder."""
    keys = {key for key, _ in points} & set(run.data.metrics)
    return {
        (key, metric.step): metric.value
        for key in sorted(keys)
        for metric in store.client.get_metric_history(run.info.run_id, key)
    }


def _contradicts(known: dict[tuple[str, int], float], points: dict[tuple[str, int], Point]) -> bool:
    """Whether the folder was trained anew: a value that must repeat does not."""
    return any(
        not math.isclose(known[key], point.value, rel_tol=1e-9)
        and not (math.isnan(known[key]) and math.isnan(point.value))
        for key, point in points.items()
        if key in known and not any(word in point.key for word in _VOLATILE)
    )


def _send_values(record: Record, run: Run, points: list[Point], store: Store) -> int:
    from mlflow.entities import Metric, Param, RunTag

    metrics = [Metric(point.key, point.value, point.time, point.step) for point in points]
    params = [Param(*item) for item in record.params().items() if item[0] not in run.data.params]
    tags = [
        RunTag(key, value)
        for key, value in record.tags().items()
        if run.data.tags.get(key) != value
    ]
    run_id = run.info.run_id
    for batch in _batches(params, _PARAMS_A_BATCH):
        store.client.log_batch(run_id, params=batch, synchronous=True)
    for batch in _batches(metrics, _METRICS_A_BATCH):
        store.client.log_batch(run_id, metrics=batch, synchronous=True)
    if tags:
        store.client.log_batch(run_id, tags=tags, synchronous=True)
    return len(metrics) + len(params) + len(tags)


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _send_files(record: Record, run: Run, store: Store) -> int:
    """Texts are compared by hash (kept in a tag) and size, pictures by size."""
    client, run_id = store.client, run.info.run_id
    files = record.files(store.images)
    folders = {".", *(str(Path(target).parent) for target in files)}
    sizes = {
        info.path: info.file_size
        for folder in sorted(folders)
        for info in client.list_artifacts(run_id, None if folder == "." else folder)
    }
    texts = record.texts(store.images)
    hashes = {target: digest(path) for target, path in files.items() if path.suffix != ".png"}
    hashes |= {target: digest(text) for target, text in texts.items()}
    before = json.loads(run.data.tags.get("files", "{}"))
    new = [
        target
        for target, path in files.items()
        if sizes.get(target) != path.stat().st_size or hashes.get(target) != before.get(target)
    ]
    for target in new:
        folder = str(Path(target).parent)
        client.log_artifact(run_id, str(files[target]), None if folder == "." else folder)
    _chart_overlays(record, run_id, [t for t in new if t.endswith(".png")], store)
    changed = [t for t in texts if t not in sizes or hashes[t] != before.get(t)]
    for target in changed:
        client.log_text(run_id, texts[target], target)
        # What `log_table` writes too: MLflow then sets the tables of several runs side by side.
        client.set_tag(run_id, _TABLES, json.dumps([{"path": target, "type": "table"}]))
    if hashes != before:
        client.set_tag(run_id, "files", json.dumps(hashes))
    return len(new) + len(changed)


def _chart_overlays(record: Record, run_id: str, targets: list[str], store: Store) -> None:
    """Overlays under names that all runs share, so that MLflow shows runs side by side."""
    if not targets:
        return
    from PIL import Image

    keys = record.overlay_keys()
    step = record.rows[-1]["step"] if record.rows else 0
    for target in targets:
        name = Path(target).name
        for key in keys.get(name, ()):
            with Image.open(record.folder / "overlays" / name) as image:
                store.client.log_image(
                    run_id, image.convert("RGB"), key=key, step=step, synchronous=True
                )


def _set_status(record: Record, run: Run, store: Store) -> None:
    status = _STATUS[record.status]
    if status == run.info.status:
        return
    if status == "RUNNING":
        store.client.update_run(run.info.run_id, status=status)
    else:
        store.client.set_terminated(run.info.run_id, status, end_time=int(record.ended * 1000))
