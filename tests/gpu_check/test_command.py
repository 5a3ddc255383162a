import subprocess
import sys

import pytest
import torch

from semimedref.config import compose, resolved
from semimedref.errors import UserError
from semimedref.gpu_check import command
from semimedref.gpu_check.checks import CHECKS
from semimedref.gpu_check.finding import Finding, ok
from semimedref.gpu_check.processes import Outcome

no_gpu_here = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@no_gpu_here
def test_a_machine_without_a_gpu_says_so_in_one_line_with_a_code_of_its_own():
    done = subprocess.run(
        [sys.executable, "-m", "semimedref.cli", "gpu-check"], capture_output=True, text=True
    )
    assert done.returncode == command.NO_GPU == 3
    assert done.stderr == "" and done.stdout.count("\n") == 1
    assert done.stdout.startswith("gpu-check: no GPU: torch ")


def test_only_picks_checks_in_their_order():
    assert command.chosen("") == list(CHECKS)
    assert command.chosen("amp, sync") == ["machine", "sync", "amp"]
    with pytest.raises(UserError, match=r"only=tf32: no such check; expected some of machine,"):
        command.chosen("tf32")


@pytest.fixture
def outcome(monkeypatch):
    """What each check finds, without running it."""
    found = {name: [ok("", f"{name} is well")] for name in CHECKS}
    ran = []

    def run_check(name, settings, *, folder):
        ran.append(name)
        return Outcome(name, found[name], 61.0)

    monkeypatch.setattr(command, "run_check", run_check)
    return found, ran


def run(tmp_path, *more):
    return command.gpu_check_command(["gpu_check=rehearsal", f"out={tmp_path}", *more])


def test_every_check_prints_a_line_and_the_report_is_named(outcome, tmp_path, capsys):
    assert run(tmp_path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(CHECKS) + 2
    assert printed[1] == " 1/10 machine     ok      01:01  machine is well"
    (report,) = tmp_path.glob("*.md")
    assert str(report) in printed[-2] and "Send us this file" in printed[-1]


def test_a_failed_check_stops_no_other_and_decides_the_exit_code(outcome, tmp_path, capsys):
    found, ran = outcome
    found["flags"] = [Finding("TF32", "failed", "is on", "it off", "unset X")]
    assert run(tmp_path) == 1
    assert ran == list(CHECKS)
    assert "FAILED  01:01  TF32: is on; expected it off; unset X" in capsys.readouterr().out


def test_settings_are_hydras(outcome, tmp_path, capsys):
    assert run(tmp_path, "only=amp", "gpu_check.minutes.amp=7") == 0
    assert "2 checks, at most 8 minutes" in capsys.readouterr().out
    assert [f.stem.endswith("-amp") for f in tmp_path.glob("*.md")] == [True]


def test_all_checks_have_a_time_and_together_less_than_an_hour():
    settings = resolved(compose(["gpu_check=default"]))["gpu_check"]
    assert list(settings["minutes"]) == list(CHECKS)
    assert sum(settings["minutes"].values()) < 60


def test_the_settings_are_no_part_of_a_run():
    assert "gpu_check" not in resolved(compose([]))


def test_make_has_it():
    from semimedref.config import config_dir

    makefile = (config_dir().parent / "Makefile").read_text()
    assert "gpu-check: setup  ##" in makefile and "semimedref gpu-check" in makefile
