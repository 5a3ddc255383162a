"""A training never waits for MLflow and never fails with it."""

import logging
import random
import subprocess
import sys
import time

import fake_runs
import pytest
from live_mlflow import free_port, history, python_env, store_at

from semimedref.tracking import NullMirror, open_mirror, prepare_store
from semimedref.tracking.commands import sync
from semimedref.tracking.sync import Feed

LOGGER = "semimedref.tracking.mirror"


def warnings(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def wait_until(condition, seconds=20):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.05)
    assert condition()


def test_epochs_arrive_while_the_run_goes_on_and_the_result_at_the_end(root, store):
    cfg = fake_runs.config(root)
    folder = fake_runs.start_run(root, 1, cfg)
    mirror = open_mirror(folder, cfg)
    with fake_runs.training(folder):
        for epoch in (1, 2):
            fake_runs.write_epochs(folder, [epoch])
            mirror.notify()
            wait_until(lambda n=epoch: len(history(store).get(folder.name, [])) == n)
        assert [run.info.status for run in store.client.search_runs([store.experiment_id])] == [
            "RUNNING"
        ]
        fake_runs.finish(folder, 2)
        assert mirror.close()
    assert history(store, "test/dice")[folder.name] == [(100, 0.75)]


def test_close_alone_mirrors_everything_and_can_be_repeated(root, store):
    cfg = fake_runs.config(root)
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, [1, 2])
    mirror = open_mirror(folder, cfg)
    assert mirror.close()
    assert mirror.close()
    mirror.notify()
    assert len(history(store)[folder.name]) == 2


def test_close_gives_up_in_time_and_says_so(root, store, caplog):
    cfg = fake_runs.config(root)
    folder = fake_runs.start_run(root, 1, cfg)
    mirror = open_mirror(folder, cfg)
    from semimedref.files import exclusive

    with exclusive(folder / ".mlflow.lock"):  # somebody else is busy with this folder
        started = time.monotonic()
        assert not mirror.close(0.3)
        assert time.monotonic() - started < 1
    assert len(warnings(caplog)) == 1
    assert "is not up to date after 0.3 s; `semimedref sync` completes it" in caplog.text
    assert mirror.close(20)


def test_failures_are_retried_only_after_a_growing_pause(tmp_path, caplog):
    patience = {"backoff_seconds": 3600, "spread_seconds": 0}
    cfg = fake_runs.config(tmp_path, uri="http://127.0.0.1:1", **patience)
    folder = fake_runs.start_run(tmp_path, 1, cfg)
    mirror = open_mirror(folder, cfg)
    mirror.notify()
    wait_until(lambda: mirror._failures == 1)
    for _ in range(20):
        mirror.notify()
        time.sleep(0.01)
    assert mirror._failures == 1
    assert not mirror.close()  # the end is worth one more try
    assert mirror._failures == 2
    assert len(warnings(caplog)) == 1


def test_a_server_that_is_back_is_caught_up_before_the_next_epoch(root, store):
    """Epochs can take half an hour: the mirror does not wait for one to try again."""
    cfg = fake_runs.config(root, backoff_seconds=0.2)
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, [1])
    database, away = root / "mlflow.db", root / "away.db"
    database.rename(away)
    database.mkdir()  # a store that cannot be opened
    mirror = open_mirror(folder, cfg)
    mirror.notify()
    wait_until(lambda: mirror._failures >= 2)
    database.rmdir()
    away.rename(database)
    wait_until(lambda: mirror._complete)
    assert history(store)[folder.name] == [(50, 0.5)]
    assert mirror.close()


def test_jobs_that_start_or_fail_together_come_back_at_different_times(tmp_path):
    """Drawn from a generator of their own: a training checkpoints Python's global one."""
    cfg = fake_runs.config(tmp_path, uri="http://127.0.0.1:1", spread_seconds=8)
    before = random.getstate()
    mirrors = [open_mirror(tmp_path / f"run{number}", cfg) for number in range(100)]
    starts = sorted(mirror._spread() for mirror in mirrors)
    assert 0 <= starts[0] < 1 and 7 < starts[-1] <= 8
    assert len(set(starts)) == 100
    pauses = []
    for mirror in mirrors:
        mirror._failures = 2000  # a server that was away for a week
        started = time.monotonic()
        mirror._fail(ConnectionRefusedError("refused"))
        pauses.append(mirror._next_try - started)
    assert 150 <= min(pauses) < 160 and 290 < max(pauses) <= 300.1
    assert random.getstate() == before
    on_disk = open_mirror(tmp_path / "run", fake_runs.config(tmp_path, spread_seconds=8))
    assert on_disk._spread() == 0


def test_closing_does_not_wait_for_the_start_or_the_end_of_a_pause(root, store):
    cfg = fake_runs.config(root, backoff_seconds=3600)
    folder = fake_runs.start_run(root, 1, cfg)
    mirror = open_mirror(folder, cfg)
    mirror._spread = lambda: 3600.0
    mirror.notify()
    assert mirror.close(60)
    assert folder.name in history(store)


def test_an_epoch_is_one_request(root, store, monkeypatch):
    cfg = fake_runs.config(root)
    folder = fake_runs.start_run(root, 1, cfg)
    feed = Feed(folder, store)
    with fake_runs.training(folder):
        fake_runs.write_epochs(folder, [1])
        feed.push()
        calls = count_calls(store.client, monkeypatch)
        for epoch in (2, 3):
            fake_runs.write_epochs(folder, [epoch])
            assert feed.push() == 5
        assert feed.push() == 0
    assert calls == ["log_batch", "log_batch"]
    assert len(history(store)[folder.name]) == 3


def count_calls(client, monkeypatch):
    """The names of the client's methods as they are called."""
    calls = []
    names = [name for name in dir(type(client)) if not name.startswith("_")]
    for name in names:
        method = getattr(client, name)
        if callable(method):
            wrapped = lambda *a, _n=name, _m=method, **k: (calls.append(_n), _m(*a, **k))[1]  # noqa: E731
            monkeypatch.setattr(client, name, wrapped)
    return calls


def test_a_broken_folder_or_a_bad_address_is_one_warning(tmp_path, caplog):
    for uri in ("nonsense://x", "sqlite:////proc/none/mlflow.db"):
        caplog.clear()
        cfg = fake_runs.config(tmp_path / uri[:4], uri=uri)
        mirror = open_mirror(fake_runs.start_run(tmp_path / uri[:4], 1, cfg), cfg)
        for _ in range(5):
            mirror.notify()
        assert not mirror.close()
        (line,) = warnings(caplog)
        assert line.startswith(f"MLflow at {uri} does not answer: ")
        assert line.endswith("; the run goes on; `semimedref sync` repairs")
        assert "\n" not in line


def test_prepare_store_makes_the_experiment_and_survives_a_dead_server(root, store, caplog):
    assert prepare_store(fake_runs.config(root, experiment_name="quickstart"))
    assert store.client.get_experiment_by_name("quickstart") is not None
    assert prepare_store(fake_runs.config(root, option="off"))
    assert not prepare_store(fake_runs.config(root, uri=f"http://127.0.0.1:{free_port()}"))
    assert len(warnings(caplog)) == 1


@pytest.mark.slow
def test_server_down_at_start_costs_nothing_and_sync_fills_it_later(
    tmp_path, server, caplog, capfd
):
    server.kill()
    cfg = fake_runs.config(tmp_path, uri=server.uri, backoff_seconds=0.1, spread_seconds=0)
    folder = fake_runs.start_run(tmp_path, 1, cfg, row="Baseline")
    fake_runs.write_overlays(folder)
    mirror = open_mirror(folder, cfg)
    started = time.monotonic()
    for epoch in range(1, 6):
        fake_runs.write_epochs(folder, [epoch])
        mirror.notify()
    assert time.monotonic() - started < 0.2
    fake_runs.finish(folder, 5)
    assert not mirror.close()
    (line,) = warnings(caplog)
    assert line == (
        f"MLflow at {server.uri} does not answer: [Errno 111] Connection refused; "
        "the run goes on; `semimedref sync` repairs"
    )
    assert capfd.readouterr().err.count("\n") <= 1  # no word of MLflow's or urllib3's own
    server.start()
    assert sync(cfg, []) == 0
    store = store_at(server.uri, tmp_path)
    assert [step for step, _ in history(store)[folder.name]] == [50, 100, 150, 200, 250]
    assert history(store, "test/dice")[folder.name] == [(250, 0.75)]
    (run,) = store.client.search_runs([store.experiment_id])
    assert run.info.status == "FINISHED"
    files = store.client.list_artifacts(run.info.run_id, "overlays")
    assert len(files) == 3
    capfd.readouterr()
    assert sync(cfg, []) == 0
    assert "1 in MLflow" in (out := capfd.readouterr().out)
    assert ", 0 values and files sent, 0 failed" in out


@pytest.mark.slow
def test_server_killed_in_the_middle_loses_nothing(tmp_path, server, caplog):
    server.start()
    patience = {"backoff_seconds": 0.1, "spread_seconds": 0}
    cfg = fake_runs.config(tmp_path, uri=server.uri, experiment_name="middle", **patience)
    folder = fake_runs.start_run(tmp_path, 2, cfg)
    mirror = open_mirror(folder, cfg)
    store = store_at(server.uri, tmp_path, experiment="middle")
    fake_runs.write_epochs(folder, [1, 2])
    mirror.notify()
    wait_until(lambda: len(history(store).get(folder.name, [])) == 2)
    server.kill()
    for epoch in (3, 4):
        fake_runs.write_epochs(folder, [epoch])
        started = time.monotonic()
        mirror.notify()
        assert time.monotonic() - started < 0.05
        wait_until(lambda n=epoch: mirror._failures >= n - 2)
    assert len(warnings(caplog)) == 1
    server.start()
    fake_runs.write_epochs(folder, [5])
    fake_runs.finish(folder, 5)
    assert mirror.close()
    assert [step for step, _ in history(store)[folder.name]] == [50, 100, 150, 200, 250]
    (run,) = store.client.search_runs([store.experiment_id])
    assert run.info.status == "FINISHED"
    assert len(warnings(caplog)) == 1


def test_tracking_off_imports_no_mlflow(tmp_path):
    assert isinstance(open_mirror(tmp_path, fake_runs.config(tmp_path, option="off")), NullMirror)
    code = (
        "import sys; from pathlib import Path; from semimedref.tracking import open_mirror\n"
        "mirror = open_mirror(Path('x'), {'tracking': {'uri': None}})\n"
        "mirror.notify(); assert mirror.close()\n"
        "heavy = {'mlflow', 'torch', 'hydra', 'omegaconf', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], env=python_env(), check=True)
