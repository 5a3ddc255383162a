"""Sixteen writers on SQLite and on a lab's server: every row, once, in the right experiment.

All tests of the lab's server are in this file, so that mostly one server is started: each of
pytest-xdist's processes that runs one of them starts its own.
"""

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import fake_runs
import pytest
import writers
from live_lab import LabServer, Postgres, postgres_programs
from live_mlflow import history, python_env, store_at

from semimedref.tracking import open_mirror
from semimedref.tracking.commands import sync

WRITERS, EPOCHS = 16, 50
KEYS = ("resources/epoch", "resources/seconds", "train/lr", "train/loss", "val/dice")
LONGEST = 1.0  # seconds: far below a time-out, above what a busy machine delays any call
COUNT = "SELECT run_uuid, key, count(*), count(DISTINCT step) FROM metrics GROUP BY run_uuid, key"
OWNERS = "SELECT run_uuid, experiment_id FROM runs WHERE lifecycle_stage = 'active'"


def start_writers(root, uri, *, count=WRITERS, epochs=EPOCHS, pause=0.02, first=0, timeout=20):
    command = [sys.executable, writers.__file__, root, uri, count, epochs, pause, first]
    command += ["close_seconds=120", "spread_seconds=1", f"timeout_seconds={timeout}"]
    command += ["backoff_seconds=0.3", "backoff_max_seconds=2"]
    return subprocess.Popen(
        list(map(str, command)), env=python_env(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish_writers(process):
    """What each writer told; their mirrors may have said that the server was away."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    sys.stderr.write(err)  # pytest shows it when a test fails
    return [json.loads(line) for line in out.splitlines()]


def check_rows(told, query, root, uri, *, epochs=EPOCHS):
    """Every metric of every epoch, each run once, in its experiment, and none in Default."""
    names = {"0": "Default"}
    for name in writers.EXPERIMENTS:
        names[store_at(uri, root, experiment=name).experiment_id] = name
    expected = {one["folder"]: one["experiment"] for one in told}
    found = {}
    for run_id, experiment_id in query(OWNERS):
        found[run_id] = names.get(str(experiment_id))
    notes = {
        json.loads((Path(root) / folder / "mlflow.json").read_text())["run_id"]: experiment
        for folder, experiment in expected.items()
    }
    assert len(notes) == len(told)
    assert {run: name for run, name in found.items() if run in notes} == notes
    assert "Default" not in found.values()
    counts = {(run, key): (rows, steps) for run, key, rows, steps in query(COUNT) if run in notes}
    for run in notes:
        for key in KEYS:
            assert counts[run, key] == (epochs, epochs), (run, key)
        assert counts[run, "test/dice"] == (1, 1)
    return found


def check_values(told, root, uri, *, epochs=EPOCHS):
    expected = [(50 * epoch, 1 - 1 / (epoch + 1)) for epoch in range(1, epochs + 1)]
    for name in writers.EXPERIMENTS:
        mine = {one["folder"] for one in told if one["experiment"] == name}
        found = history(store_at(uri, root, experiment=name))
        assert mine <= found.keys()
        assert all(found[folder] == expected for folder in mine)


def check_costs(told):
    """Below 2 % of an epoch of 10 s; the training's own thread is far below that."""
    assert all(one["longest_wait"] < LONGEST for one in told)
    assert max(one["thread_seconds"] for one in told) / EPOCHS < 0.002
    # What the mirror's thread takes from the process, its first contact and the forks included.
    assert max(one["cpu_seconds"] for one in told) / EPOCHS < 0.2


@pytest.mark.slow
def test_sixteen_writers_on_sqlite_lose_nothing(root):
    uri = f"sqlite:///{root}/mlflow.db"
    told = finish_writers(start_writers(root, uri))
    assert all(one["complete"] for one in told)
    with sqlite3.connect(root / "mlflow.db") as database:
        runs = check_rows(told, lambda query: database.execute(query).fetchall(), root, uri)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert len(runs) == WRITERS
    check_values(told, root, uri)
    check_costs(told)


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
needs_postgres = pytest.mark.skipif(postgres_programs() is None, reason="needs PostgreSQL")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    cluster = Postgres(tmp_path_factory.mktemp("postgres")).start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def lab(tmp_path_factory, postgres):
    server = LabServer(tmp_path_factory.mktemp("lab"), postgres.uri()).start()
    yield server
    server.kill()


@needs_postgres
@pytest.mark.slow
def test_sixteen_writers_on_a_server_with_postgresql_lose_nothing(tmp_path, lab, postgres):
    told = finish_writers(start_writers(tmp_path, lab.uri))
    assert all(one["complete"] for one in told)
    check_rows(told, postgres.rows, tmp_path, lab.uri)
    check_values(told, tmp_path, lab.uri)
    check_costs(told)


@needs_postgres
@pytest.mark.slow
def test_a_server_that_is_frozen_in_the_middle_costs_no_row_and_no_wait(
    tmp_path, lab, postgres, capfd
):
    first = 100
    process = start_writers(tmp_path, lab.uri, count=4, pause=0.2, first=first, timeout=2)
    rows = f"SELECT count(*) FROM tags WHERE key = 'row' AND value LIKE 'writer {first // 100}0_'"
    limit = time.monotonic() + 60
    while not postgres.rows(rows)[0][0] and time.monotonic() < limit:
        time.sleep(0.1)
    lab.freeze()
    time.sleep(8)  # above two time-outs of 2 s: a request and its repetition both fail
    lab.thaw()
    told = finish_writers(process)
    assert capfd.readouterr().err.count("does not answer") >= len(told)  # all of them noticed
    assert all(one["longest_wait"] < LONGEST for one in told)
    if not all(one["complete"] for one in told):  # the end may have come before the server
        cfg = fake_runs.config(tmp_path, uri=lab.uri)
        assert sync(cfg, []) == 0
    check_rows(told, postgres.rows, tmp_path, lab.uri)
    check_values(told, tmp_path, lab.uri)


@needs_postgres
@pytest.mark.slow
def test_files_go_through_the_server_and_jobs_need_no_disk_of_it(tmp_path, lab):
    cfg = fake_runs.config(tmp_path, uri=lab.uri, experiment_name="files", spread_seconds=0)
    folder = fake_runs.start_run(tmp_path, 300, cfg)
    fake_runs.write_overlays(folder)
    fake_runs.finish(folder, 1)
    assert open_mirror(folder, cfg).close()
    store = store_at(lab.uri, tmp_path, experiment="files")
    (run,) = store.client.search_runs([store.experiment_id])
    assert run.info.artifact_uri.startswith("mlflow-artifacts:/")
    got = store.client.download_artifacts(run.info.run_id, "run.json", str(tmp_path))
    assert Path(got).read_bytes() == (folder / "run.json").read_bytes()
    assert len(store.client.list_artifacts(run.info.run_id, "overlays")) == 3
    assert not (tmp_path / "mlartifacts").exists()


@needs_postgres
@pytest.mark.slow
def test_writers_on_postgresql_itself_hold_no_connection_between_epochs(
    tmp_path, postgres, monkeypatch
):
    """They come together on an empty database, too: one of them migrates it."""
    for name in ("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "PGCLIENTENCODING"):
        monkeypatch.setenv(name, "")  # put back what was there when the test ends
        monkeypatch.delenv(name)
    uri = postgres.create("direct")
    told = finish_writers(start_writers(tmp_path, uri, count=4, epochs=5, first=400))
    assert all(one["complete"] for one in told)
    check_rows(told, lambda query: postgres.rows(query, "direct"), tmp_path, uri, epochs=5)
    cfg = fake_runs.config(tmp_path, uri=uri, experiment_name="main", spread_seconds=0)
    mirror = open_mirror(fake_runs.start_run(tmp_path, 410, cfg), cfg)
    mirror.notify()
    limit = time.monotonic() + 30
    while not mirror._complete and time.monotonic() < limit:
        time.sleep(0.05)
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'direct'"
    assert postgres.rows(query) == [(0,)]
    assert mirror.close()
