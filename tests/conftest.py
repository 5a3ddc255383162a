"""Shared fixtures: one thread, a cache of the session's own, small configurations."""

from __future__ import annotations

import os
import time
from collections import Counter

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["HYDRA_DEPRECATION_WARNINGS_AS_ERRORS"] = "1"

import pytest

BUDGET = 15  # minutes of `make test` on two quiet cores; CONTRIBUTING.md says what a test may cost
STARTED = time.monotonic()
SLOW = {"browser", "cuda", "golden", "gpu_check", "launch", "slurm", "tracking"}  # whole folders
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


def pytest_collection_modifyitems(items):
    """Folders that start processes, servers or networks at full size are slow as a whole."""
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter):
    """The total beside the budget, and what each folder of tests took."""
    parts = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                _, first, *rest = report.nodeid.split("::")[0].split("/")
                parts[first if rest else "tests/*.py"] += report.duration
    minutes, seconds = divmod(round(time.monotonic() - STARTED), 60)
    most = ", ".join(f"{name} {taken:.0f}" for name, taken in parts.most_common(12))
    terminalreporter.write_line(f"seconds by part: {most}")
    terminalreporter.write_line(
        f"{minutes} min {seconds} s; the budget of the whole suite is {BUDGET} min on two cores"
    )
