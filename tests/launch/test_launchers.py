"""The launchers as a user meets them: settings, documentation, refusals."""

import re
from pathlib import Path

import pytest
import yaml

from semimedref.config import compose, config_dir
from semimedref.errors import UserError
from semimedref.launch.slurm import SlurmSettings
from tests.command import semimedref
from tests.conftest import SMOKE

ROOT = Path(__file__).parents[2]
SETTINGS = yaml.safe_load((config_dir() / "hydra" / "launcher" / "slurm.yaml").read_text())
QUICK = ["experiment=quickstart", *SMOKE]


def settings(**changes):
    others = {"_target_", "detach", "poll_seconds"}
    return SlurmSettings(**{k: v for k, v in SETTINGS.items() if k not in others} | changes)


def test_the_documented_settings_are_those_of_the_file():
    page = (ROOT / "docs" / "slurm.md").read_text()
    table = page[page.index("| setting |") : page.index("`run_root` must be")]
    named = {name for line in table.splitlines()[2:] for name in _words(line)}
    assert named == set(SETTINGS) - {"_target_", "poll_seconds"}


def _words(line):
    return re.findall(r"`(\w+)`", line.split("|")[1]) if "|" in line else []


def test_the_documented_file_of_a_lab_composes(tmp_path):
    page = (ROOT / "docs" / "slurm.md").read_text()
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "hydra" / "launcher").mkdir(parents=True)
    (tmp_path / "hydra" / "launcher" / "our_cluster.yaml").write_text(text)
    cfg = compose(["hydra/launcher=our_cluster"], config_dirs=[str(tmp_path)])
    assert cfg.hydra.launcher.account == "imaging"
    assert cfg.hydra.launcher.signal_delay_s == SETTINGS["signal_delay_s"]


@pytest.mark.parametrize("key", ["timeout_min", "cells_per_job", "cpus_per_task"])
def test_a_setting_below_its_least_value_is_refused(key):
    settings()
    with pytest.raises(UserError, match=rf"hydra\.launcher\.{key}=0: expected a whole number"):
        settings(**{key: 0})


def test_a_machine_without_slurm_says_what_helps(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [*QUICK, "hydra/launcher=slurm", f"run_root={tmp_path / 'runs'}"]
    done = semimedref("train", "-m", *words)
    assert done.returncode == 2
    assert "sbatch was not found" in done.stderr and "gpu_local" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_setting_is_named(tmp_path):
    words = [*QUICK, "hydra/launcher=slurm", "+hydra.launcher.gpu=2", f"run_root={tmp_path}"]
    done = semimedref("train", "-m", *words)
    assert done.returncode == 2
    assert "hydra.launcher.gpu is unknown" in done.stderr
    assert "additional_parameters" in done.stderr


def test_a_dry_run_says_what_it_costs_and_starts_nothing(tmp_path):
    done = semimedref("train", "-m", *QUICK, f"run_root={tmp_path / 'runs'}", "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "quickstart: 4 cells, 4 runs: 4 missing" in done.stdout
    assert "GPU hours" in done.stdout
    assert not list(tmp_path.glob("runs/*/run.json"))
