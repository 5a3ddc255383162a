"""A sweep on a real SLURM: equal to one in this process, whatever happens to its jobs."""

import json
import os
import signal
import subprocess
from pathlib import Path

from semimedref.config import config_dir
from semimedref.environment import git_commit
from semimedref.launch.submission import submissions
from semimedref.owner import signature
from semimedref.sweep import expand
from tests.command import ended
from tests.slurm.lab import ASKED, WORDS, Lab, outcome


def test_a_disturbed_sweep_is_one_array_and_ends_with_the_same_bits(cluster, undisturbed, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    broken = lab.root / expand([*WORDS]).cells[7].name
    broken.mkdir(parents=True)
    (broken / "last.pt").write_bytes(b"no checkpoint")
    launcher, _ = lab.start("train", "-m", *WORDS, *ASKED)
    cluster.wait(lambda: len(lab.jobs()) == 8, seconds=120)
    (made,) = submissions(lab.root)
    assert made.array and len(made.cells) == 8
    requeued, late, cancelled, killed, urgent, _, _, fails = (f"{made.job}_{n}" for n in range(8))

    launcher.kill()  # first of all: everything else must work without it
    launcher.join()

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
    assert [job for job, done in states.items() if not done] == [cancelled, fails]
    for job, folder in lab.jobs().items():
        if states[job]:
            assert outcome(folder) == undisturbed[folder.name], lab.log(job)
    assert {cluster.facts(job)["NodeList"] for job in lab.jobs()} == {"n1", "n2", "n3"}
    assert len(list((lab.root / ".code").iterdir())) == 1
    assert "preempted" in lab.log(urgent)
    assert "timed-out" in lab.log(late)
    assert "killed (exit code 137)" in lab.log(killed)
    for job in (requeued, late, killed, urgent):
        assert "continues at step" in lab.log(job), job

    code, out = lab.run("status", *WORDS)
    assert code == 0
    assert "6 done, 2 failed" in out
    assert f"SLURM job {cancelled} ended as CANCELLED" in out
    code, out = lab.run("train", "-m", *WORDS, *ASKED)  # what was taken away is trained again
    assert code == 0, out
    first, last = out.splitlines()[0], out.splitlines()[-1]
    waits = "1 failed (retry_failed=true runs them again), 0 to run"
    assert first.startswith("8 cells, 6 done, 2 failed") and first.endswith("1 to run")
    assert last == f"8 cells, 7 done, {waits}"
    done = {f.name: outcome(f) for f in lab.jobs().values() if f != broken}
    assert done == {name: undisturbed[name] for name in done} and len(done) == 7


def test_a_cell_that_fails_by_itself_is_told(cluster, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    words = [*WORDS, "only=0"]
    broken = lab.root / expand(list(words)).cells[0].name
    broken.mkdir(parents=True)
    (broken / "last.pt").write_bytes(b"no checkpoint")
    code, out = lab.run("train", "-m", *words, *ASKED)
    assert code == 2
    assert "1 of 1 cells did not finish" in out
    assert "last.pt" in out


def test_cells_that_share_a_job_are_equal_too_and_survive_a_requeue(cluster, undisturbed, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    shared = ["hydra.launcher.cells_per_job=2", "hydra.launcher.gpus_per_node=1"]
    words = [*WORDS, "only=[0,1]", *ASKED, *shared]
    process, log = lab.start("train", "-m", *words)
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
    assert ended(process) == 0, log.read_text()
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


def test_detached_cells_run_what_was_submitted_and_the_same_command_waits_for_them(
    cluster, tmp_path
):
    """An editor that saves other files after the submission changes nothing."""
    lab = Lab(tmp_path / "runs", cluster)
    shipped = (config_dir() / "model" / "unet.yaml").read_text()
    files = {
        tmp_path / "code" / "my_lab" / "__init__.py": "",
        tmp_path / "code" / "my_lab" / "net.py": NET,
        tmp_path / "my_conf" / "model" / "my_net.yaml": shipped.replace(
            "semimedref.model.unet.UNet", "my_lab.net.Net"
        ),
    }
    write(files)
    lab.environment["PYTHONPATH"] = str(tmp_path / "code")
    words = [
        "--config-dir", tmp_path / "my_conf", *WORDS, "only=0", "model=my_net",
        "trusted_packages=[my_lab]",
    ]  # fmt: skip
    cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        code, out = lab.run("train", "-m", *words, *ASKED, "hydra.launcher.detach=true")
        assert code == 0, out
        assert "1 cell is in the queue: job " in out
        assert "1 cell, 0 done, 1 queued, 0 to run" in out
        code, out = lab.run("status", *words)
        assert "1 queued" in out
        write(dict.fromkeys(files, "nonsense: {\n"))
    finally:
        cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    ((job, folder),) = lab.jobs().items()
    pid = lab.hold(job)[job]
    write(files)
    process, log = lab.start("train", "-m", *words, *ASKED)
    cluster.wait(lambda: "0 to run" in log.read_text() if log.exists() else False)
    os.kill(pid, signal.SIGCONT)
    assert ended(process) == 0, log.read_text()
    assert len(submissions(lab.root)) == 1
    assert "as submitted" in lab.log(job)
    result = json.loads((folder / "result.json").read_text())
    assert result["git_commit"] == git_commit()


def write(files):
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
