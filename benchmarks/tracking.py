"""What an epoch costs a training that is tracked: our mirror against log_metric in the loop.

    python -m benchmarks tracking
    SEMIMEDREF_TRACKING_URI=http://127.0.0.1:5000 python -m benchmarks tracking    # a server, too

Without a training: rows come every tenth of a second, so that each is mirrored alone.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Comparison
from benchmarks.size import Size

_KEYS = [f"val/score_{i}" for i in range(16)]
_EPOCH = 10.0  # seconds, to which the cost is compared
_PAUSE = 0.1
_PATIENCE = 300.0  # until the first contact and the last row


def run(size: Size) -> list[Comparison]:
    """Creating the store, importing MLflow and the first contact are not counted."""
    with TemporaryDirectory() as root:
        stores = {"SQLite with WAL": f"sqlite:///{root}/mlflow.db"}
        server = os.environ.get("SEMIMEDREF_TRACKING_URI")
        if server:
            stores["server"] = server
        return [row for name in stores for row in _rows(name, stores[name], Path(root), size)]


def _rows(name: str, uri: str, root: Path, size: Size) -> list[Comparison]:
    from semimedref.config import compose, resolved

    words = [f"run_root={root / name}", f"tracking.uri={uri}", "tracking.spread_seconds=0"]
    config = resolved(compose([*words, "tracking.experiment=benchmark", *size.cpu[:2]]))
    ours, folder = _mirrored(config, root / name / "run", size.tracked)
    obvious = _logged(config, size.tracked)
    _check_equal(config, [folder, obvious.pop("run_id")], size.tracked)
    return [
        _comparison(f"{name}: thread waits", ours["wall"], obvious["wall"], "wall time"),
        _comparison(f"{name}: process CPU", [ours["cpu"]], [obvious["cpu"]], "CPU of all threads"),
    ]


def _mirrored(config: dict, folder: Path, epochs: int) -> tuple[dict, str]:
    """Our way; returns the costs of an epoch and the id of the MLflow run."""
    from semimedref.config import signature, signed
    from semimedref.tracking import open_mirror

    folder.mkdir(parents=True)
    run = {"signature": signature(config), "name": folder.name, "config": config}
    run |= {"signed": signed(config), "experiment": None, "row": None, "created": time.time()}
    (folder / "run.json").write_text(json.dumps(run))
    mirror = open_mirror(folder, config)
    mirror.notify()
    note = folder / "mlflow.json"
    _wait(lambda: note.exists() and "run_id" in note.read_text())
    time.sleep(10 * _PAUSE)  # the first contact sends params and files, too
    waits, cpu = [], time.process_time()
    for epoch in range(1, epochs + 1):
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": epoch, "time": time.time()} | _values(epoch)) + "\n")
        waits.append(_timed(mirror.notify))
        time.sleep(_PAUSE)
    if not mirror.close(_PATIENCE):
        raise AssertionError("the mirror is not complete")
    cost = {"wall": waits, "cpu": (time.process_time() - cpu) / epochs}
    return cost, json.loads(note.read_text())["run_id"]


def _logged(config: dict, epochs: int) -> dict:
    """The obvious way: every metric when it is there, in the loop."""
    from semimedref.tracking import open_store, tracking_settings

    settings = tracking_settings(config)
    store = open_store(
        settings.uri, settings.experiment, settings.artifact_root, wal=settings.wal,
        timeout_seconds=settings.timeout_seconds, retries=settings.retries, images=settings.images,
    )  # fmt: skip
    run_id = store.client.create_run(store.experiment_id).info.run_id

    def log(epoch: int) -> None:
        for key, value in _values(epoch).items():
            store.client.log_metric(run_id, key, value, step=epoch, synchronous=True)

    waits, cpu = [], time.process_time()
    for epoch in range(1, epochs + 1):
        waits.append(_timed(lambda epoch=epoch: log(epoch)))
        time.sleep(_PAUSE)
    return {"wall": waits, "cpu": (time.process_time() - cpu) / epochs, "run_id": run_id}


def _values(epoch: int) -> dict[str, float]:
    return {key: (i + 1) / epoch for i, key in enumerate(_KEYS)}


def _check_equal(config: dict, run_ids: list[str], epochs: int) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(config["tracking"]["uri"])
    for key in _KEYS:
        found = [
            [(m.step, m.value) for m in client.get_metric_history(one, key)] for one in run_ids
        ]
        if found[0] != found[1] or len(found[0]) != epochs:
            raise AssertionError(f"{key}: the two ways did not store the same values")


def _comparison(case: str, ours: list[float], obvious: list[float], clock: str) -> Comparison:
    fast, slow = statistics.median(ours), statistics.median(obvious)
    each = [theirs / own for own, theirs in zip(ours, obvious, strict=True)]
    note = f"{clock} of an epoch with {len(_KEYS)} metrics; of an epoch of {_EPOCH:g} s: ours "
    note += f"{100 * fast / _EPOCH:.3f} %, obvious {100 * slow / _EPOCH:.3f} %; "
    note += f"longest: ours {1000 * max(ours):.2f} ms, obvious {1000 * max(obvious):.1f} ms"
    names = {"ours": "mirror thread", "obvious": "log_metric in the loop"}
    return Comparison(
        benchmark="tracking", case=case, **names, ours_seconds=fast, obvious_seconds=slow,
        ratio=slow / fast, ratio_low=min(each), ratio_high=max(each), repeats=len(each), note=note,
    )  # fmt: skip


def _timed(way: Callable[[], object]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started


def _wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("MLflow does not answer")
        time.sleep(0.02)
