"""What MLflow holds of a run, as far as we know it: asked once, then kept up while we send."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semimedref.tracking.record import Point, Record
from semimedref.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.protos.service_pb2 import Metric

Place = tuple[str, int]  # a metric and its step
# Measurements of the machine differ when a resumed run writes a step again.
_VOLATILE = ("second", "memory")


@dataclass
class Known:
    """One MLflow run."""

    run_id: str
    origin: str
    status: str
    params: set[str]
    tags: dict[str, str]
    values: dict[Place, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of the artifacts
    hashes: dict[str, str] = field(default_factory=dict)  # of the artifacts that are texts


def known_of(run: Run, origin: str) -> Known:
    """What a run says about itself; of a new one, this is all."""
    return Known(
        run_id=run.info.run_id,
        origin=origin,
        status=run.info.status,
        params=set(run.data.params),
        tags=dict(run.data.tags),
    )


def look_up(known: Known, run: Run, record: Record, *, store: Store, verify: bool) -> None:
    """Ask MLflow for the values and files of an older run."""
    known.values |= known_values(run, record.points(), store=store, verify=verify)
    folders = {".", *(target.rpartition("/")[0] or "." for target in record.files(store.images))}
    for folder in sorted(folders):
        path = None if folder == "." else folder
        found = store.client.list_artifacts(known.run_id, path)
        known.sizes |= {info.path: info.file_size for info in found}
    known.hashes = json.loads(known.tags.get("files", "{}"))


def known_values(
    run: Run, points: Mapping[Place, Point], *, store: Store, verify: bool
) -> dict[Place, float]:
    """The values that MLflow has for the metrics of this folder.

    Values are sent in the order of their steps. So where MLflow's last value of a metric is one of
    the folder's, of the same millisecond, it has all before and none after: nothing is asked.
    """
    by_key: dict[str, dict[int, Point]] = {}
    for (key, step), point in points.items():
        by_key.setdefault(key, {})[step] = point
    values: dict[Place, float] = {}
    for last in run.data.to_proto().metrics:
        own = by_key.get(last.key, {})
        if not own:
            continue
        if not verify and _is(own.get(last.step), last):
            values |= {(last.key, step): p.value for step, p in own.items() if step <= last.step}
        else:
            history = store.client.get_metric_history(run.info.run_id, last.key)
            values |= {(last.key, metric.step): metric.value for metric in history}
    return values


def contradicts(known: Mapping[Place, float], points: Mapping[Place, Point]) -> bool:
    """Whether the folder was trained anew: a value that must repeat does not."""
    return any(
        not _equal(known[place], point.value)
        for place, point in points.items()
        if place in known and not any(word in point.key for word in _VOLATILE)
    )


def _is(point: Point | None, last: Metric) -> bool:
    return point is not None and point.time == last.timestamp and _equal(point.value, last.value)


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
