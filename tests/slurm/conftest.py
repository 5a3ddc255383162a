import pytest

from tests.slurm.cluster import Cluster, installed


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three virtual nodes with two cores each."""
    if not installed():
        pytest.skip("SLURM is not installed")
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    yield made
    made.close()
