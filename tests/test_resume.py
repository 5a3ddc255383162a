"""Exact resume: interrupted however often, a run ends as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from semimedref import checkpoint
from semimedref.folder import RunFolder
from tests.command import ended, start
from tests.conftest import SMOKE, TIMES

pytestmark = pytest.mark.slow

LONGER = ["scale.epochs=7", "hardware.save_seconds=0.02"]


def train(smoke, log, *extra):
    assert ended(start(log, "train", *smoke, *LONGER, *extra)) == 0, log.read_text()


def train_and_kill(smoke, log, *extra, delay):
    """Kill -9 a moment after the first checkpoint of this start; returns whether it was alive."""
    known = last_checkpoint(smoke)
    process = start(log, "train", *smoke, *LONGER, *extra)
    while process.is_alive() and last_checkpoint(smoke) == known:
        time.sleep(0.01)
    time.sleep(delay)
    process.kill()
    return ended(process) == -signal.SIGKILL


def last_checkpoint(smoke):
    files = list(root_of(smoke).glob("*/last.pt"))
    return files[0].stat().st_mtime_ns if files else 0


def only_run(smoke):
    (run,) = (p.parent for p in root_of(smoke).glob("*/run.json"))
    return run


def root_of(smoke):
    return Path(next(a for a in smoke if a.startswith("run_root=")).removeprefix("run_root="))


def ending(run):
    """Weights, rows and result without times."""
    weights = checkpoint.load(run / "best.pt")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in r.items() if k not in TIMES} for r in rows]
    result = json.loads((run / "result.json").read_text())
    return weights, rows, {k: result[k] for k in ("test", "best", "steps", "epochs", "parameters")}


def assert_same(a, b):
    for network, weights in a[0]["weights"].items():
        for name, value in weights.items():
            assert torch.equal(value, b[0]["weights"][network][name]), name
    assert a[1:] == b[1:]


@pytest.mark.parametrize(("workers", "times"), [(0, 10), (2, 2)])
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path, workers, times):
    never = [*SMOKE, f"run_root={tmp_path / 'never'}"]
    often = [*SMOKE, f"run_root={tmp_path / 'often'}"]
    option, log = f"hardware.workers={workers}", tmp_path / "often.log"
    train(never, tmp_path / "never.log", option)
    rng = random.Random(workers)
    delays = [rng.uniform(0, 0.12) for _ in range(times)]
    kills = sum(train_and_kill(often, log, option, delay=delay) for delay in delays)
    train(often, log, option)
    assert kills == times, "the run was too short to be killed so often"
    assert log.read_text().count("continues at step") == times
    assert_same(ending(only_run(never)), ending(only_run(often)))


def test_killed_in_its_pre_training_and_after_it_a_method_ends_with_the_same_bits(tmp_path):
    words = ["method=dusss", "augment=none", "scale.vlm.epochs=4"]
    never, often = ([*SMOKE, f"run_root={tmp_path / name}", *words] for name in ("never", "often"))
    log = tmp_path / "often.log"
    train(never, tmp_path / "never.log")
    for stage in ("vlm_pretraining", "dusss"):
        process = start(log, "train", *often, *LONGER)
        while process.is_alive() and not list((tmp_path / "often").glob(f"*-{stage}-*/last.pt")):
            time.sleep(0.01)
        process.kill()
        assert ended(process) == -signal.SIGKILL, log.read_text()
    train(often, log)
    assert log.read_text().count("continues at step") == 2
    for run in sorted((tmp_path / "never").glob("*-s42-*")):
        assert_same(ending(run), ending(tmp_path / "often" / run.name))
    assert len(list((tmp_path / "never").glob("*-s42-*"))) == 2


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2])
def test_a_signal_saves_at_the_next_step_and_leaves_with_a_message(smoke, tmp_path, sig):
    log = tmp_path / "log"
    process = start(log, "train", *smoke, "scale.epochs=200")
    while process.is_alive() and not (log.exists() and "epoch 2/" in log.read_text()):
        time.sleep(0.02)
    os.kill(process.pid, sig)
    code, output = ended(process), log.read_text()
    assert code == 128 + sig, output
    assert "the same command continues" in output
    assert "Traceback" not in output
    run = only_run(smoke)
    assert checkpoint.load(run / "last.pt")["step"] >= 10
    assert not (run / "failure.json").exists()


def test_a_finished_run_returns_its_score_without_training(compose_smoke):
    from semimedref.run import run

    cfg = compose_smoke("scale.epochs=1")
    first = run(cfg)
    folder = next(p.parent for p in Path(cfg.run_root).glob("*/result.json"))
    stamp = (folder / "best.pt").stat().st_mtime_ns
    assert run(cfg) == first
    assert (folder / "best.pt").stat().st_mtime_ns == stamp
    assert not (folder / "last.pt").exists()


def test_four_steps_equal_two_plus_two_inside_an_epoch(compose_smoke, tmp_path):
    from semimedref.run import Parts

    def trainer(name):
        parts = Parts.build(compose_smoke("method=teacher_student", "scale.schedule.burn_in=0"))
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return parts.trainer(folder, lambda: None)

    whole, first = trainer("whole"), trainer("cut")
    for step in range(4):
        whole._optimize(whole.data[step])
    for step in range(2):
        first._optimize(first.data[step])
    first._save()
    second = trainer("cut")
    second._resume()
    assert second.step == 2
    for step in range(2, 4):
        second._optimize(second.data[step])
    for network, weights in whole.method.weights().items():
        for name, value in weights.items():
            assert torch.equal(value, second.method.weights()[network][name]), name
    assert {k: float(v) for k, v in whole.sums.items()} == {
        k: float(v) for k, v in second.sums.items()
    }


def test_a_second_process_is_told_that_the_run_is_taken(compose_smoke, tmp_path):
    from semimedref.errors import UserError

    folder = RunFolder.create(tmp_path / "run")
    code = (
        "import sys, time; from pathlib import Path; from semimedref.folder import RunFolder\n"
        f"with RunFolder(Path({str(folder.path)!r})).locked():\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline().strip() == "held"
        with pytest.raises(UserError, match=f"process {holder.pid} on "), folder.locked():
            pass
    finally:
        holder.kill()
        holder.wait()
    with folder.locked():
        pass


def test_loader_workers_do_not_keep_the_lock_of_a_killed_trainer(tmp_path):
    code = (
        "import os, time; from pathlib import Path; from semimedref.folder import RunFolder\n"
        f"with RunFolder(Path({str(tmp_path)!r})).locked():\n"
        "    if os.fork() == 0: time.sleep(60); os._exit(0)\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert holder.stdout.readline().strip() == "held"
        holder.kill()
        holder.wait()
        with RunFolder(tmp_path).locked():  # the forked child is still there
            pass
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
