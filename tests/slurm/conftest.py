import pytest

from tests.command import semimedref
from tests.slurm.cluster import Cluster, installed
from tests.slurm.lab import WORDS, outcome


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three virtual nodes with two cores each."""
    if not installed():
        pytest.skip("SLURM is not installed")
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """What the eight cells give in this process, by run folder."""
    root = tmp_path_factory.mktemp("here")
    done = semimedref("train", "-m", *WORDS, f"run_root={root}", "hydra/launcher=basic")
    assert done.returncode == 0, done.stdout + done.stderr
    return {file.parent.name: outcome(file.parent) for file in root.glob("*/result.json")}
