"""A migrated database, made once; a real MLflow server; helpers to look into a store."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import fake_runs
import pytest

import semimedref
from semimedref.tracking import open_store
from semimedref.tracking.store import mlflow_environment


@pytest.fixture(scope="session", autouse=True)
def _quiet_mlflow():
    mlflow_environment(timeout_seconds=5, retries=1)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A migrated, empty database: creating one takes seconds, copying it does not."""
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{path}"]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
def root(tmp_path, template):
    """A run root with a migrated store."""
    path = tmp_path / "multi run"  # a space must not matter
    path.mkdir()
    shutil.copy(template, path / "mlflow.db")
    return path


@pytest.fixture
def store(root):
    return store_at(f"sqlite:///{root}/mlflow.db", root)


def store_at(uri, root, *, experiment="runs", images="phantom"):
    return open_store(
        uri,
        experiment,
        Path(root) / "mlartifacts",
        wal="auto",
        timeout_seconds=5,
        retries=1,
        images=images,
    )


def history(store, key="val/dice"):
    """Run name to the list of (step, value) of a metric, over the store's experiment."""
    client = store.client
    return {
        run.info.run_name: [
            (metric.step, metric.value)
            for metric in client.get_metric_history(run.info.run_id, key)
        ]
        for run in client.search_runs([store.experiment_id])
    }


def python_env():
    """For subprocesses: this package, and none of the markers by which MLflow detects tests."""
    source = str(Path(semimedref.__file__).parents[1])
    env = {k: v for k, v in os.environ.items() if k not in ("PYTEST_CURRENT_TEST", "CI")}
    return env | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def fake_run_command(*arguments):
    return [sys.executable, fake_runs.__file__, *map(str, arguments)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url, process, seconds=90):
    """Until the server answers."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit and process.poll() is None:
        try:
            return urllib.request.urlopen(url, timeout=2)
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"no answer from {url}")


def end(process):
    """Kill a process that we started, with its children."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Server:
    """A real `mlflow server` that can be killed and started again."""

    def __init__(self, folder, database):
        shutil.copy(database, folder / "server.db")
        self._folder, self._process, self.port = folder, None, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self):
        if self._process:
            return
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--workers=1"]
        command += [
            f"--port={self.port}",
            f"--backend-store-uri=sqlite:///{self._folder}/server.db",
        ]
        command += [f"--artifacts-destination={self._folder}/artifacts"]
        self._process = subprocess.Popen(
            command,
            env=python_env() | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(f"{self.uri}/health", self._process)

    def kill(self):
        if self._process:
            end(self._process)
            self._process = None


@pytest.fixture(scope="module")
def server(tmp_path_factory, template):
    """Not started: a test starts and kills it as it needs."""
    server = Server(tmp_path_factory.mktemp("server"), template)
    yield server
    server.kill()
