"""Cells in processes of their own on this machine."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from semimedref.errors import UserError
from semimedref.launch import slots as places
from semimedref.launch.slots import slots
from semimedref.owner import signature
from tests.conftest import SMOKE

# Without the thread count, which the launcher shares out.
QUICK = ["experiment=quickstart", *SMOKE[:-1], "scale.epochs=1"]
LOCAL = ["hydra/launcher=gpu_local"]


def start(tmp_path, *words, **environment):
    command = [sys.executable, "-m", "semimedref.cli", "train", "-m", *words]
    return subprocess.Popen(
        [*command, f"run_root={tmp_path / 'runs'}"], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, **environment},
    )  # fmt: skip


def results(tmp_path):
    files = (tmp_path / "runs").glob("*/result.json")
    return {f.parent.name: json.loads(f.read_text()) for f in files}


@pytest.fixture
def cores(monkeypatch):
    """Pretend that this process may use so many cores, and that nobody named a thread count."""
    monkeypatch.delenv("OMP_NUM_THREADS")

    def pretend(number):
        monkeypatch.setattr(places, "cores", lambda: number)

    return pretend


def test_every_gpu_gets_a_process_and_an_equal_share_of_the_cores(monkeypatch, cores):
    cores(8)
    monkeypatch.setattr(places, "visible_gpus", lambda: ["0", "1"])
    made = slots(gpus=["0", "1"], cells_per_gpu=2, threads=None)
    assert [s.label for s in made] == ["gpu 0", "gpu 1", "gpu 0", "gpu 1"]
    assert {s.environment["OMP_NUM_THREADS"] for s in made} == {"2"}
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in made] == ["0", "1", "0", "1"]


def test_without_a_gpu_every_core_gets_a_process(monkeypatch, cores):
    cores(5)
    made = slots(gpus=[], cells_per_gpu=1, threads=None)
    assert [s.environment["OMP_NUM_THREADS"] for s in made] == ["1"] * 5
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert len(slots(gpus=[], cells_per_gpu=1, threads=None)) == 2
    assert len(slots(gpus=[], cells_per_gpu=1, threads=2)) == 2
    assert len(slots(gpus=[], cells_per_gpu=1, threads=16)) == 1


def test_visible_gpus_keep_their_own_names(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, MIG-7f")
    assert places.visible_gpus() == ["3", "MIG-7f"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert places.visible_gpus() == ["0", "1"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"cells_per_gpu": 0}, "cells_per_gpu=0"),
        ({"threads": "two"}, "threads=two: expected a whole number"),
        ({"gpus": 0}, "gpus=0: expected a list"),
        ({"gpus": [0, 2]}, "GPU 2 is not visible; expected some of 0, 1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(monkeypatch, wrong, told):
    monkeypatch.setattr(places, "visible_gpus", lambda: ["0", "1"])
    with pytest.raises(UserError, match=told):
        slots(**({"gpus": [0], "cells_per_gpu": 1, "threads": None} | wrong))


def test_a_gpu_by_its_own_name_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(places, "visible_gpus", lambda: ["0", "1"])
    (slot,) = slots(gpus=["GPU-7f"], cells_per_gpu=1, threads=1)
    assert slot.environment["CUDA_VISIBLE_DEVICES"] == "GPU-7f"
    monkeypatch.setattr(places, "visible_gpus", list)
    with pytest.raises(UserError, match="there is no GPU here"):
        slots(gpus=["GPU-7f"], cells_per_gpu=1, threads=1)


def test_a_sweep_over_cores_trains_every_cell_with_one_thread(tmp_path):
    out, _ = (process := start(tmp_path, *QUICK, "only=[0,2]")).communicate(timeout=600)
    assert process.returncode == 0, out
    assert "2 cells, 2 done, 0 to run" in out
    found = results(tmp_path)
    assert len(found) == 2
    assert {r["precision"]["threads"] for r in found.values()} == {1}
    here = tmp_path / "here"
    plain = start(here, *QUICK, "only=0", "hydra/launcher=basic")
    assert plain.wait(600) == 0, plain.stdout.read()
    ((name, result),) = results(here).items()
    assert found[name]["test"] == result["test"]


def test_a_killed_cell_is_started_again_and_a_broken_one_does_not_stop_the_others(tmp_path):
    words = [*QUICK, "only=[0,1]", "hardware.save_seconds=0", "scale.epochs=2", *LOCAL]
    process = start(tmp_path, *words)
    victim = _trains(tmp_path)
    os.kill(signature(victim).pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    assert f"{victim.name} was killed: it is started again" in out
    assert len(results(tmp_path)) == 2


def test_a_signal_lets_every_cell_save_and_the_same_command_continues(tmp_path):
    words = [*QUICK, "only=0", "hardware.save_seconds=0", "scale.epochs=40", *LOCAL]
    process = start(tmp_path, *words)
    folder = _trains(tmp_path)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM
    assert "the same command continues" in out
    assert (folder / "last.pt").exists() and signature(folder) is None


def test_cells_leave_when_the_launcher_is_killed(tmp_path):
    words = [*QUICK, "only=0", "hardware.save_seconds=0", "scale.epochs=200", *LOCAL]
    process = start(tmp_path, *words)
    folder = _trains(tmp_path)
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    while signature(folder) is not None:
        assert time.monotonic() < end, "the cell goes on without its launcher"
        time.sleep(0.1)
    assert (folder / "last.pt").exists()
    assert not (folder / "failure.json").exists()


def _trains(tmp_path):
    """A cell that is inside its training loop."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        for saved in (tmp_path / "runs").glob("*/last.pt"):
            if signature(saved.parent) is not None:
                return saved.parent
        time.sleep(0.05)
    raise TimeoutError("no cell has started to train")
