"""Look into a real MLflow store; start and kill a real MLflow server."""

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

import semimedref
from semimedref.tracking import open_store


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
    """Run folder to the list of (step, value) of a metric, over the store's experiment."""
    client = store.client
    return {
        run.data.tags["name"]: [
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


def wait_for(url, process, seconds=240):
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

    def __init__(self, folder, database=None):
        if database:
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


def only_run(store):
    (run,) = store.client.search_runs([store.experiment_id])
    return run


def artifacts(store, path=None):
    return {info.path for info in store.client.list_artifacts(only_run(store).info.run_id, path)}
