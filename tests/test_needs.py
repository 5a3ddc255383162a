"""Runs that start from other runs: trained once, shared, waited for."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from semimedref import config, needs
from semimedref.folder import RunFolder
from semimedref.run import run
from tests.command import semimedref
from tests.conftest import SMOKE

pytestmark = pytest.mark.slow

METHOD = """
from semimedref.method.supervised import Supervised


class Tuned(Supervised):
    def start_from(self, name, weights):
        self.student.load_trainable_state(weights["student"])
        print(f"starts from {name}", flush=True)
"""
OPTION = """\
# @package _global_
defaults:
  - supervised@method
  - supervised@needs.trunk.method

method:
  _target_: my_lab.tuned.Tuned
needs:
  trunk:
    ratio: {fraction: 1.0}
    trainer: {epochs: 2}
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A method outside the project that starts from a run with all labels."""
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "__init__.py").touch()
    (tmp_path / "my_lab" / "tuned.py").write_text(METHOD)
    (tmp_path / "conf" / "method").mkdir(parents=True)
    (tmp_path / "conf" / "method" / "tuned.yaml").write_text(OPTION)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def words(lab, *more):
    return [*SMOKE, "method=tuned", "augment=none", "trusted_packages=[my_lab]",
            "scale.epochs=1", f"run_root={lab / 'runs'}", *more]  # fmt: skip


def compose(lab, *more):
    return config.compose(words(lab, *more), config_dirs=[str(lab / "conf")])


def test_what_is_needed_differs_in_what_was_named_and_needs_nothing_itself(lab):
    cfg = compose(lab, "experiment_name=mine")
    ((name, other),) = needs.needed(cfg)
    assert name == "trunk" and other.needs == {} and other.experiment_name is None
    assert other.method._target_.endswith("Supervised") and "Tuned" in cfg.method._target_
    assert other.ratio.fraction == 1.0 and other.ratio.split_seed == cfg.ratio.split_seed
    assert (other.trainer.epochs, cfg.trainer.epochs) == (2, 1)
    assert other.trainer.batch_size == cfg.trainer.batch_size


def test_what_is_needed_is_part_of_the_signature(lab):
    same = {config.signature(config.resolved(compose(lab))) for _ in range(2)}
    longer = compose(lab, "needs.trunk.trainer.epochs=3")
    assert len(same) == 1 and config.signature(config.resolved(longer)) not in same


def test_two_ratios_share_one_run_and_nothing_is_trained_twice(lab, capsys):
    for ratio in ("2pct", "15pct", "2pct"):
        run(compose(lab, f"ratio={ratio}"))
    printed = capsys.readouterr().out
    assert printed.count("starts from trunk") == 2
    names = sorted(path.parent.name for path in (lab / "runs").glob("*/result.json"))
    assert [name.rsplit("-", 1)[0] for name in names] == [
        "phantom_tiny-100pct-mmi_unet-supervised-s42",
        "phantom_tiny-15pct-mmi_unet-tuned-s42",
        "phantom_tiny-2pct-mmi_unet-tuned-s42",
    ]


def test_a_run_that_another_process_trains_is_waited_for(lab, monkeypatch, capsys):
    cfg = compose(lab)
    ((_, other),) = needs.needed(cfg)
    plain = config.resolved(other)
    folder = RunFolder.create(Path(plain["run_root"]) / config.run_name(plain))
    hold = "import sys; from pathlib import Path; from semimedref.owner import owned\n"
    hold += "with owned(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "held\n"
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            holder.kill()
            holder.wait()

    monkeypatch.setattr(needs, "time", SimpleNamespace(sleep=pause))
    run(cfg)
    assert pauses[:2] == [needs._PAUSE] * 2
    printed = capsys.readouterr().out
    assert printed.count(f"waits for {folder.name}, which another process trains") == 1
    assert folder.result() is not None and "starts from trunk" in printed


def test_a_failure_of_what_is_needed_is_one_of_the_run(lab):
    done = semimedref(
        "train", "--config-dir", lab / "conf", *words(lab, "+needs.trunk.trainer.lr=-1")
    )
    assert done.returncode != 0 and "trainer.lr=-1" in done.stderr
    failed = [json.loads(p.read_text()) for p in (lab / "runs").glob("*tuned*/failure.json")]
    assert len(failed) == 1 and "trainer.lr=-1" in failed[0]["error"]
