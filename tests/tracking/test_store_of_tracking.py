"""One process creates the store, whoever comes first; nothing lands in "Default"."""

import json
import sqlite3
import subprocess

import fake_runs
import pytest
from live_mlflow import fake_run_command, free_port, history, python_env, store_at

from semimedref.errors import UserError
from semimedref.tracking import tracking_settings
from semimedref.tracking.reach import check_reach
from semimedref.tracking.store import _on_network, reason


@pytest.mark.slow
def test_four_processes_on_a_store_that_does_not_exist_lose_nothing(tmp_path):
    root, epochs = tmp_path / "new" / "multirun", 6
    uri = f"sqlite:///{root}/mlflow.db"
    jobs = [
        subprocess.Popen(
            fake_run_command("mirror", root, uri, number, epochs),
            env=python_env(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    errors = [job.communicate(timeout=300)[1] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 4, errors
    assert errors == [""] * 4
    store = store_at(uri, root, experiment="quickstart")
    expected = [(50 * epoch, 1 - 1 / (epoch + 1)) for epoch in range(1, epochs + 1)]
    found = history(store)
    assert len(found) == 4
    assert all(values == expected for values in found.values())
    assert all(values == [(300, 0.75)] for values in history(store, "test/dice").values())
    runs = store.client.search_runs([store.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    names = [experiment.name for experiment in store.client.search_experiments()]
    assert sorted(names) == ["Default", "quickstart"]
    assert not store.client.search_runs(["0"])
    with sqlite3.connect(root / "mlflow.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not list(root.glob(".mlflow.db*"))


@pytest.mark.slow
def test_sync_rebuilds_a_deleted_database_and_ignores_its_old_log(tmp_path):
    cfg = fake_runs.config(tmp_path)
    for number in range(2):
        folder = fake_runs.start_run(tmp_path, number, cfg)
        fake_runs.write_epochs(folder, [1, 2])
        fake_runs.finish(folder, 2)
        note = {"uri": f"sqlite:///{tmp_path}/mlflow.db", "run_id": "0" * 32}
        (folder / "mlflow.json").write_text(json.dumps(note))
    # What a killed process leaves when somebody then deletes mlflow.db alone.
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("PRAGMA journal_mode=wal")
        other.execute("CREATE TABLE stale (x)")
        other.commit()
        (tmp_path / "mlflow.db-wal").write_bytes((tmp_path / "other.db-wal").read_bytes())
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    command = fake_run_command("sync", tmp_path, uri)
    done = subprocess.run(command, env=python_env(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"2 runs, 2 in MLflow at {uri}, ")
    store = store_at(uri, tmp_path)
    assert [len(values) for values in history(store).values()] == [2, 2]
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "stale" not in tables
    assert "runs" in tables


def test_opening_again_finds_the_same_experiment_with_an_absolute_place(root, monkeypatch):
    uri = f"sqlite:///{root}/mlflow.db"
    first = store_at(uri, root, experiment="a/b")
    monkeypatch.chdir("/")
    assert store_at(uri, root, experiment="a/b").experiment_id == first.experiment_id
    location = first.client.get_experiment(first.experiment_id).artifact_location
    assert location == str(root / "mlartifacts" / "a_b")


def test_a_deleted_experiment_is_restored(root):
    uri = f"sqlite:///{root}/mlflow.db"
    store = store_at(uri, root)
    store.client.delete_experiment(store.experiment_id)
    assert store_at(uri, root).experiment_id == store.experiment_id
    assert store.client.get_experiment(store.experiment_id).lifecycle_stage == "active"


def test_wal_is_on(store, root):
    with sqlite3.connect(root / "mlflow.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/x.db", False),
        ("/home/me/net disk/x.db", True),
        ("/s/x", True),
        ("/s/ssd/x", False),
    ],
)
def test_network_disks_are_recognised_by_their_deepest_mount(tmp_path, path, expected):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "overlay / overlay rw 0 0\nserver:/x /home/me/net\\040disk nfs4 rw 0 0\n"
        "me@host: /s fuse.sshfs rw 0 0\n/dev/sdb /s/ssd ext4 rw 0 0\n"
    )
    assert _on_network(type(tmp_path)(path), mounts) is expected


def test_a_link_to_a_network_disk_is_one(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "multirun").symlink_to(tmp_path / "scratch")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"overlay / overlay rw 0 0\nserver:/x {tmp_path / 'scratch'} nfs4 rw 0 0\n")
    assert _on_network(tmp_path / "multirun" / "mlflow.db", mounts)


def test_settings_are_absolute_and_single_runs_have_an_experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = tracking_settings(fake_runs.config("multirun"))
    assert settings.uri == f"sqlite:///{tmp_path}/multirun/mlflow.db"
    assert settings.artifact_root == tmp_path / "multirun" / "mlartifacts"
    assert settings.experiment == "runs"
    table = fake_runs.config("multirun", experiment_name="quickstart")
    assert tracking_settings(table).experiment == "quickstart"
    assert tracking_settings(fake_runs.config("multirun", wal=False)).wal == "off"


def test_an_unknown_choice_is_refused(tmp_path):
    with pytest.raises(UserError, match="images=all: expected one of phantom, always, never"):
        tracking_settings(fake_runs.config(tmp_path, images="all"))


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        (
            "localhost:5000",
            "localhost:5000 is no address of a store: expected sqlite",
        ),
        ("mlruns", "mlruns is no address of a store"),
        ("nonsense://x", "nonsense://x is no address of a store"),
        ("sqlite://x.db", "sqlite://x.db has two slashes: expected sqlite:///FILE"),
        (
            "postgres://me@host/db",
            "postgres:// names no driver that is installed",
        ),
        ("postgresql://me@host/db", "write postgresql[+]psycopg2://"),
    ],
)
def test_a_wrong_address_is_one_clear_line(uri, line):
    with pytest.raises(UserError, match=line):
        check_reach(uri, timeout_seconds=1)


def test_a_database_that_refuses_us_says_so_at_once():
    """MLflow alone would try for two minutes, with the lock in its hands."""
    psycopg2 = pytest.importorskip("psycopg2")
    with pytest.raises(psycopg2.OperationalError, match="Connection refused"):
        check_reach(f"postgresql+psycopg2://me@127.0.0.1:{free_port()}/db", timeout_seconds=1)


@pytest.mark.parametrize("uri", ["http://host:5000", "sqlite:////a b/c.db", "databricks"])
def test_other_addresses_are_left_to_mlflow(uri):
    check_reach(uri, timeout_seconds=1)


def test_the_reason_is_the_root_of_the_chain():
    try:
        try:
            raise ConnectionRefusedError("refused\nmore")
        except ConnectionRefusedError as error:
            raise RuntimeError("wrapped") from error
    except RuntimeError as error:
        assert reason(error) == "refused"
