"""What an epoch costs a training that is tracked: our mirror against log_metric in the loop.

    python -m benchmarks tracking
    SEMIMEDREF_TRACKING_URI=http://127.0.0.1:5000 python -m benchmarks tracking    # a server, too

Without a training. The thread's wait is that of the real mirror, with an epoch every tenth of a
second; the CPU is that of what its thread does for one epoch, each sent alone.
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
from semimedref.tracking.store import Store

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
    waits, mirrored = _mirrored(config, root / name / "run", size.tracked)
    cpu, sent = _sent(config, root / name / "again", size.tracked)
    obvious_waits, obvious_cpu, logged = _logged(config, size.tracked)
    _check_equal(config, [mirrored, sent, logged], size.tracked)
    return [
        _comparison(f"{name}: thread waits", waits, obvious_waits, "wall time"),
        _comparison(f"{name}: process CPU", cpu, obvious_cpu, "CPU of all threads"),
    ]


def _mirrored(config: dict, folder: Path, epochs: int) -> tuple[list[float], str]:
    """How long a training waits for the mirror, epoch by epoch, and the MLflow run."""
    from semimedref.tracking import open_mirror

    _start(config, folder)
    mirror = open_mirror(folder, config)
    mirror.notify()
    note = folder / "mlflow.json"
    _wait(lambda: note.exists() and "run_id" in note.read_text())
    waits = []
    for epoch in range(1, epochs + 1):
        _write(folder, epoch)
        waits.append(_timed(mirror.notify, time.perf_counter))
        time.sleep(_PAUSE)
    if not mirror.close(_PATIENCE):
        raise AssertionError("the mirror is not complete")
    return waits, json.loads(note.read_text())["run_id"]


def _sent(config: dict, folder: Path, epochs: int) -> tuple[list[float], str]:
    """The CPU of what the mirror's thread does, epoch by epoch, and the MLflow run."""
    from semimedref.tracking.sync import Feed

    _start(config, folder)
    feed = Feed(folder, _store(config))
    feed.push()
    cpu = []
    for epoch in range(1, epochs + 1):
        _write(folder, epoch)
        cpu.append(_timed(feed.push, time.process_time))
    return cpu, json.loads((folder / "mlflow.json").read_text())["run_id"]


def _logged(config: dict, epochs: int) -> tuple[list[float], list[float], str]:
    """The obvious way: every metric when it is there, in the loop."""
    store = _store(config)
    run_id = store.client.create_run(store.experiment_id).info.run_id

    def log(epoch: int) -> None:
        for key, value in _values(epoch).items():
            store.client.log_metric(run_id, key, value, step=epoch, synchronous=True)

    waits, cpu = [], []
    for epoch in range(1, epochs + 1):
        started = time.process_time()
        waits.append(_timed(lambda epoch=epoch: log(epoch), time.perf_counter))
        cpu.append(time.process_time() - started)
    return waits, cpu, run_id


def _start(config: dict, folder: Path) -> None:
    from semimedref.config import signature, signed

    folder.mkdir(parents=True)
    run = {"signature": signature(config), "name": folder.name, "config": config}
    run |= {"signed": signed(config), "experiment": None, "row": None, "created": time.time()}
    (folder / "run.json").write_text(json.dumps(run))


def _write(folder: Path, epoch: int) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": epoch, "time": time.time()} | _values(epoch)) + "\n")


def _store(config: dict) -> Store:
    from semimedref.tracking import tracking_settings
    from semimedref.tracking.store import open_configured

    settings = tracking_settings(config)
    return open_configured(settings, settings.experiment)


def _values(epoch: int) -> dict[str, float]:
    return {key: (i + 1) / epoch for i, key in enumerate(_KEYS)}


def _check_equal(config: dict, run_ids: list[str], epochs: int) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(config["tracking"]["uri"])
    for key in _KEYS:
        found = [
            [(m.step, m.value) for m in client.get_metric_history(one, key)] for one in run_ids
        ]
        if any(one != found[0] for one in found) or len(found[0]) != epochs:
            raise AssertionError(f"{key}: the ways did not store the same values")


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


def _timed(way: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    way()
    return clock() - started


def _wait(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("MLflow does not answer")
        time.sleep(0.02)
