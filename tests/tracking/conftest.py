"""A migrated database, made once, and a real MLflow server."""

import shutil
import subprocess
import sys

import fake_runs
import pytest
from live_mlflow import Server, store_at

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


@pytest.fixture(scope="module")
def server(tmp_path_factory, template):
    """Not started: a test starts and kills it as it needs."""
    server = Server(tmp_path_factory.mktemp("server"), template)
    yield server
    server.kill()


@pytest.fixture
def cfg(root):
    return fake_runs.config(root)


@pytest.fixture
def done(root, cfg):
    """A finished run of three epochs."""
    folder = fake_runs.start_run(root, 1, cfg, row="Teacher-student")
    fake_runs.write_epochs(folder, [1, 2, 3])
    fake_runs.finish(folder, 3)
    return folder
