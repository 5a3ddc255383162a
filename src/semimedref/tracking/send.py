"""Send what a run folder holds and MLflow lacks, in as few requests as MLflow allows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.tracking.known import Known, Place
from semimedref.tracking.record import Point, Record, digest
from semimedref.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param, RunTag

_STATUS = {"done": "FINISHED", "failed": "FAILED", "running": "RUNNING", "paused": "KILLED"}
_A_BATCH = 1000  # limits of MLflow's log-batch call: of all values together
_PARAMS_A_BATCH = 100  # and of params, and of tags
_TABLES = "mlflow.loggedArtifacts"


def send(record: Record, points: Mapping[Place, Point], known: Known, store: Store) -> int:
    """Make the MLflow run equal to the folder, and `known` with it.

    Returns:
        How many params, tags, metric values and files were sent; 0 when all were there.
    """
    sent = _send_values(record, points, known, store)
    sent += _send_files(record, known, store)
    marks = {"files": json.dumps(known.hashes)} if known.hashes else {}
    if record.status != "running":  # a running one is not at rest: `sync` looks at it anyhow
        marks["mirrored"] = record.digest(store.images)
    _send_tags(marks, known, store)
    _send_status(record, known, store)
    return sent


def _send_values(record: Record, points: Mapping[Place, Point], known: Known, store: Store) -> int:
    from mlflow.entities import Metric, Param, RunTag

    missing = [point for place, point in points.items() if place not in known.values]
    metrics = [Metric(point.key, point.value, point.time, point.step) for point in missing]
    params = [Param(*item) for item in record.params().items() if item[0] not in known.params]
    wanted = record.tags() | {"origin": known.origin}
    tags = [RunTag(key, text) for key, text in wanted.items() if known.tags.get(key) != text]
    for one in _batches(params, metrics, tags):
        store.client.log_batch(known.run_id, synchronous=True, **one)
        known.values |= {(metric.key, metric.step): metric.value for metric in one["metrics"]}
        known.params |= {param.key for param in one["params"]}
        known.tags |= {tag.key: tag.value for tag in one["tags"]}
    return len(metrics) + len(params) + len(tags)


def _batches(
    params: list[Param], metrics: list[Metric], tags: list[RunTag]
) -> Iterator[dict[str, list]]:
    while params or metrics or tags:
        one: dict[str, list] = {"params": params[:_PARAMS_A_BATCH], "tags": tags[:_PARAMS_A_BATCH]}
        room = _A_BATCH - len(one["params"]) - len(one["tags"])
        yield one | {"metrics": metrics[:room]}
        params, tags = params[_PARAMS_A_BATCH:], tags[_PARAMS_A_BATCH:]
        metrics = metrics[room:]


def _send_files(record: Record, known: Known, store: Store) -> int:
    """Texts are compared by hash (kept in a tag) and size, pictures by size."""
    client, run_id = store.client, known.run_id
    files, texts = record.files(store.images), record.texts(store.images)
    hashes = {target: digest(path) for target, path in files.items() if path.suffix != ".png"}
    hashes |= {target: digest(text) for target, text in texts.items()}
    sizes = {target: path.stat().st_size for target, path in files.items()}
    new = [
        target
        for target in files
        if known.sizes.get(target) != sizes[target]
        or hashes.get(target) != known.hashes.get(target)
    ]
    for target in new:
        folder = target.rpartition("/")[0]
        client.log_artifact(run_id, str(files[target]), folder or None)
    _chart_overlays(record, run_id, [t for t in new if t.endswith(".png")], store)
    changed = [t for t in texts if t not in known.sizes or hashes[t] != known.hashes.get(t)]
    for target in changed:
        client.log_text(run_id, texts[target], target)
        sizes[target] = len(texts[target].encode())
        # What `log_table` writes too: MLflow then sets the tables of several runs side by side.
        client.set_tag(run_id, _TABLES, json.dumps([{"path": target, "type": "table"}]))
    known.sizes |= sizes
    known.hashes = hashes
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


def _send_tags(tags: Mapping[str, str], known: Known, store: Store) -> None:
    from mlflow.entities import RunTag

    changed = {key: text for key, text in tags.items() if known.tags.get(key) != text}
    if changed:
        entities = [RunTag(*item) for item in changed.items()]
        store.client.log_batch(known.run_id, tags=entities, synchronous=True)
        known.tags |= changed


def _send_status(record: Record, known: Known, store: Store) -> None:
    status = _STATUS[record.status]
    if status == known.status:
        return
    if status == "RUNNING":
        store.client.update_run(known.run_id, status=status)
    else:
        store.client.set_terminated(known.run_id, status, end_time=int(record.ended * 1000))
    known.status = status
