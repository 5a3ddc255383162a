"""Shared fixtures: one thread, a cache of the session's own, small configurations."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["HYDRA_DEPRECATION_WARNINGS_AS_ERRORS"] = "1"

import pytest

TIMES = ("time", "seconds", "step_seconds")  # of an epoch's row: no two runs share them
SMOKE = [
    "dataset=phantom_tiny",
    "scale=smoke",
    "tracking=off",
    "overlays=never",
    "hardware=cpu",
    "hardware.threads=1",
]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Phantoms, expansions and counts are made once for a session, whichever worker asks first."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    folder.mkdir(exist_ok=True)
    os.environ["SEMIMEDREF_CACHE"] = str(folder)
    return folder


@pytest.fixture
def smoke(tmp_path):
    """Overrides of a run that takes seconds, in a folder of its own."""
    return [*SMOKE, f"run_root={tmp_path / 'multirun'}"]


@pytest.fixture
def compose_smoke(smoke):
    from semimedref.config import compose

    return lambda *extra: compose([*smoke, *extra])
