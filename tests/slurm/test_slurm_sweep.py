"""A sweep on a real SLURM: equal to one in this process, whatever happens to its jobs."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from semimedref.config import config_dir
from semimedref.environment import git_commit
from semimedref.launch.submission import submissions
from semimedref.owner import signature
from semimedref.sweep import expand
from tests.slurm.lab import ASKED, WORDS, Lab, outcome


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the twelve cells give in one process."""
    lab = Lab(tmp_path_factory.mktemp("here") / "runs")
    code, out = lab.run("train", "-m", *WORDS)
    assert code == 0, out
    return {name: outcome(folder) for name, folder in lab.folders().items()}


def test_a_sweep_is_one_array_and_gives_the_same_bits(cluster, undisturbed, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    code, out = lab.run("train", "-m", *WORDS, *ASKED)
    assert code == 0, out
    assert "12 cells, 12 done, 0 to run" in out
    (made,) = submissions(lab.root)
    assert made.array
    assert len(made.cells) == 12
    assert len(undisturbed) == 12
    assert {name: outcome(f) for name, f in lab.folders().items()} == undisturbed
    assert {cluster.facts(job)["NodeList"] for job in lab.jobs()} == {"n1", "n2", "n3"}
    assert len(list((lab.root / ".code").iterdir())) == 1
    code, out = lab.run("train", "-m", *WORDS, *ASKED)
    assert (code, out.splitlines()[0]) == (0, "12 cells, 12 done, 0 to run")


def test_a_disturbed_sweep_ends_like_an_undisturbed_one(cluster, undisturbed, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    launcher = lab.start("train", "-m", *WORDS, *ASKED)
    cluster.wait(lambda: len(lab.jobs()) == 12, seconds=120)
    array = submissions(lab.root)[0].job
    requeued, late, cancelled, killed, urgent = (f"{array}_{n}" for n in range(5))

    launcher.kill()  # first of all: everything else must work without it
    launcher.wait()

    # SLURM wakes the stopped processes with the signals that it sends.
    pids = lab.hold(requeued, late, cancelled, killed, urgent)
    cluster.run("scontrol", "update", f"jobid={late}", "TimeLimit=1")
    cluster.run("scontrol", "requeue", requeued)
    cluster.run("scancel", cancelled)
    os.kill(pids[killed], signal.SIGKILL)
    node = cluster.facts(urgent)["NodeList"]
    boss = subprocess.Popen(
        ["srun", "-p", "high", "-w", node, "-c", "2", "sleep", "1"], env=cluster.environment
    )
    cluster.wait(lambda: cluster.facts(late)["Restarts"] == "1", seconds=120)
    cluster.run("scontrol", "update", f"jobid={late}", "TimeLimit=10")  # once is enough
    assert boss.wait(120) == 0
    cluster.wait(lambda: not cluster.queue(), seconds=600)

    states = {job: (f / "result.json").exists() for job, f in lab.jobs().items()}
    assert [job for job, done in states.items() if not done] == [cancelled]
    for job, folder in lab.jobs().items():
        if job != cancelled:
            assert outcome(folder) == undisturbed[folder.name], lab.log(job)
    assert "preempted" in lab.log(urgent)
    assert "timed-out" in lab.log(late)
    assert "killed (exit code 137)" in lab.log(killed)
    for job in (requeued, late, killed, urgent):
        assert "continues at step" in lab.log(job), job

    code, out = lab.run("status", *WORDS)
    assert code == 0
    assert "11 done, 1 failed" in out
    assert f"SLURM job {cancelled} ended as CANCELLED" in out
    code, out = lab.run("train", "-m", *WORDS, *ASKED)
    assert code == 0, out
    assert out.startswith("12 cells, 11 done, 1 failed, 1 to run")
    last = lab.jobs()
    assert {f.name: outcome(f) for f in last.values()} == undisturbed


def test_a_cell_that_fails_by_itself_is_told_and_waits_for_a_retry(cluster, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    words = [*WORDS, "only=[0,1]"]
    broken = lab.root / expand(list(words)).cells[0].name
    broken.mkdir(parents=True)
    (broken / "last.pt").write_bytes(b"no checkpoint")
    code, out = lab.run("train", "-m", *words, *ASKED)
    assert code == 2
    assert "1 of 2 cells did not finish" in out
    assert "last.pt" in out
    code, out = lab.run("train", "-m", *words, *ASKED)
    assert "1 done, 1 failed (retry_failed=true runs them again), 0 to run" in out


def test_detached_cells_are_found_by_status_and_by_the_same_command(cluster, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    words = [*WORDS, "only=[0,1]"]
    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        code, out = lab.run("train", "-m", *words, *ASKED, "hydra.launcher.detach=true")
        assert code == 0, out
        assert "2 cells are in the queue: array " in out
        assert "2 cells, 0 done, 2 queued, 0 to run" in out
        code, out = lab.run("status", *words)
        assert "2 queued" in out
    finally:
        cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    code, out = lab.run("train", "-m", *words, *ASKED)
    assert code == 0, out
    assert out.startswith("2 cells, 0 done, ")
    assert ", 0 to run" in out.splitlines()[0]
    assert len(submissions(lab.root)) == 1


def test_cells_that_share_a_job_are_equal_too_and_survive_a_requeue(cluster, undisturbed, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    shared = ["hydra.launcher.cells_per_job=2", "hydra.launcher.gpus_per_node=1"]
    words = [*WORDS, "only=[0,1]", *ASKED, *shared]
    process = lab.start("train", "-m", *words)
    cluster.wait(lambda: len(submissions(lab.root)) == 1, seconds=120)
    (made,) = submissions(lab.root)
    assert not made.array
    assert [len(names) for names in made.cells] == [2]
    cluster.wait(lambda: all((lab.root / n / "last.pt").exists() for n in made.cells[0]), 300)
    owners = [signature(lab.root / name) for name in made.cells[0]]
    assert len({owner.pid for owner in owners}) == 2
    devices = {_environment(owner.pid)["CUDA_VISIBLE_DEVICES"] for owner in owners}
    assert len(devices) == 1 and devices <= {"0", "1"}
    cluster.run("scancel", "--signal=USR2", made.job)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert int(cluster.facts(made.job)["Restarts"]) == 1
    for name in made.cells[0]:
        assert outcome(lab.root / name) == undisturbed[name]


def _environment(pid):
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_a_wrong_partition_is_one_line(cluster, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    code, out = lab.run("train", "-m", *WORDS, "only=0", *ASKED, "hydra.launcher.partition=nope")
    assert code == 2
    assert "invalid partition" in out.lower()
    assert "Traceback" not in out


NET = """
from semimedref.model.unet import UNet

class Net(UNet):
    print("as submitted")
"""


def test_the_jobs_run_the_code_and_the_options_that_were_submitted(cluster, tmp_path):
    """An editor that saves other files after the submission changes nothing."""
    lab = Lab(tmp_path / "runs", cluster)
    package, options = tmp_path / "code" / "my_lab", tmp_path / "my_conf" / "model"
    for folder in (package, options):
        folder.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "net.py").write_text(NET)
    shipped = (config_dir() / "model" / "unet.yaml").read_text()
    option = shipped.replace("semimedref.model.unet.UNet", "my_lab.net.Net")
    (options / "my_net.yaml").write_text(option)
    lab.environment["PYTHONPATH"] = str(package.parent)
    words = [
        "--config-dir", str(options.parent), *WORDS, "only=0", "scale.epochs=1", "model=my_net",
        "trusted_packages=[my_lab]",
    ]  # fmt: skip
    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        code, out = lab.run("train", "-m", *words, *ASKED, "hydra.launcher.detach=true")
        assert code == 0, out
        (package / "net.py").write_text("raise RuntimeError('edited later')\n")
        (options / "my_net.yaml").write_text("nonsense: {\n")
    finally:
        cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    cluster.wait(lambda: not cluster.queue(), seconds=300)
    ((job, folder),) = lab.jobs().items()
    assert (folder / "result.json").exists(), lab.log(job)
    assert "as submitted" in lab.log(job)
    result = json.loads((folder / "result.json").read_text())
    assert result["git_commit"] == git_commit()
