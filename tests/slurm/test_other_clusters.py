"""Clusters that are set up in another way: small arrays, a preemption that sends SIGTERM alone."""

import os
import signal
import subprocess

import pytest

from semimedref.launch.submission import submissions
from tests.command import ended
from tests.slurm.cluster import Cluster, installed
from tests.slurm.lab import ASKED, WORDS, Lab, outcome


@pytest.fixture
def strict(tmp_path):
    if not installed():
        pytest.skip("SLURM is not installed")
    made = Cluster(tmp_path / "cluster", nodes=1, max_array=2, user_signal=False)
    yield made
    made.close()


def test_a_sweep_is_cut_into_arrays_and_a_sigterm_before_the_end_is_enough(
    strict, undisturbed, tmp_path
):
    lab = Lab(tmp_path / "runs", strict)
    words = [*WORDS, "only=[0,1,2]", *ASKED]
    process, log = lab.start("train", "-m", *words)
    strict.wait(lambda: len(lab.jobs()) == 3, seconds=120)
    assert [len(made.cells) for made in submissions(lab.root)] == [2, 1]
    array = submissions(lab.root)[0].job
    job, last = f"{array}_0", f"{array}_1"
    assert strict.facts(last)["JobId"] == array  # its bare number means the whole array
    os.kill(lab.hold(job, last)[last], signal.SIGKILL)
    command = ["srun", "-p", "high", "-c", "2", "sleep", "1"]
    boss = subprocess.Popen(command, env=strict.environment)
    assert ended(process) == 0, log.read_text()
    assert boss.wait(60) == 0
    assert "preempted" in lab.log(job)
    assert "killed (exit code 137)" in lab.log(last)
    for one in (job, last):
        assert "continues at step" in lab.log(one)
    assert strict.facts(job)["Restarts"] == "1"
    found = {name: outcome(folder) for name, folder in lab.folders().items()}
    assert len(found) == 3
    assert found == {name: undisturbed[name] for name in found}
