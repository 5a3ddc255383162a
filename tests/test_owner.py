"""Run folders on a disk that several nodes share: one owner, and a dead one is noticed."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace

import pytest

from semimedref import owner
from semimedref.errors import UserError
from semimedref.owner import SIGNATURE, Owner, check, is_owned, owned, signature


@pytest.fixture
def quick(monkeypatch):
    """Seconds instead of minutes."""
    monkeypatch.setattr(owner, "BEAT", 0.1)
    monkeypatch.setattr(owner, "STALE", 1.0)


def sign(folder, **changes):
    """The signature of somebody on another node, whose kernel lock this node does not see."""
    other = replace(Owner.here(), host="node7", pid=4711, **changes)
    (folder / SIGNATURE).write_text(json.dumps(asdict(other)))
    return other


def test_the_owner_signs_and_takes_its_signature_away(tmp_path):
    with owned(tmp_path) as me:
        assert signature(tmp_path) == me
        assert me.pid == os.getpid()
        assert is_owned(tmp_path)
    assert signature(tmp_path) is None
    assert not is_owned(tmp_path)


def test_a_living_owner_on_another_node_is_respected_without_a_shared_lock(tmp_path, quick):
    sign(tmp_path)
    ended = threading.Event()

    def live():
        while not ended.wait(0.1):
            os.utime(tmp_path / SIGNATURE)

    threading.Thread(target=live, daemon=True).start()
    try:
        assert is_owned(tmp_path)
        with pytest.raises(UserError, match="process 4711 on node7"), owned(tmp_path):
            pass
    finally:
        ended.set()


def test_a_silent_owner_on_another_node_is_dead_after_a_while(tmp_path, quick):
    sign(tmp_path)
    started = time.monotonic()
    with owned(tmp_path) as me:
        assert signature(tmp_path) == me
    assert 0.9 < time.monotonic() - started < 5


def test_an_owner_that_is_silent_for_long_is_not_waited_for(tmp_path):
    sign(tmp_path)
    os.utime(tmp_path / SIGNATURE, (1.0, 1.0))
    assert not is_owned(tmp_path)
    started = time.monotonic()
    with owned(tmp_path):
        assert time.monotonic() - started < 1


def test_the_same_slurm_job_comes_back_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    sign(tmp_path, job="12")
    started = time.monotonic()
    with owned(tmp_path) as me:
        assert me.job == "12"
        assert time.monotonic() - started < 1


def test_a_killed_process_of_this_node_is_not_waited_for(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from semimedref.owner import owned\n"
        f"with owned(Path({str(tmp_path)!r})): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert signature(tmp_path) is not None
    assert not is_owned(tmp_path)
    started = time.monotonic()
    with owned(tmp_path):
        assert time.monotonic() - started < 1


def test_the_signature_is_touched_while_the_owner_lives(tmp_path, quick):
    with owned(tmp_path):
        os.utime(tmp_path / SIGNATURE, (1.0, 1.0))
        time.sleep(0.5)
        assert (tmp_path / SIGNATURE).stat().st_mtime > 1.0


def test_who_was_thought_dead_writes_no_more(tmp_path):
    with owned(tmp_path) as me:
        check(tmp_path, me)
        other = sign(tmp_path)
        with pytest.raises(UserError, match="taken over by process 4711 on node7"):
            check(tmp_path, me)
    assert signature(tmp_path) == other  # and leaves the other's signature alone


def test_a_trainer_that_was_taken_over_saves_nothing(tmp_path, compose_smoke):
    from semimedref.run import Parts

    parts = Parts.build(compose_smoke("method=supervised", "augment=none"))
    with owned(tmp_path) as me:
        trainer = parts.trainer(tmp_path, lambda: None, guard=lambda: check(tmp_path, me))
        sign(tmp_path)
        with pytest.raises(UserError, match="taken over"):
            trainer.fit()
    assert not list(tmp_path.glob("*.pt")) and not (tmp_path / "metrics.jsonl").exists()


@pytest.mark.parametrize("job", [None, "12"])  # of one SLURM job, too
def test_a_disk_without_locks_is_protected_by_the_signature(tmp_path, monkeypatch, quick, job):
    if job is not None:
        monkeypatch.setenv("SLURM_JOB_ID", job)

    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    other = (
        "import errno, fcntl; from pathlib import Path\n"
        "def no(*_): raise OSError(errno.ENOLCK, 'No locks available')\n"
        "fcntl.flock = no\n"
        "from semimedref import owner; owner.BEAT = 0.1; owner.STALE = 2.0\n"
        f"with owner.owned(Path({str(tmp_path)!r})): print('held')"
    )
    command = [sys.executable, "-c", other]
    with owned(tmp_path):
        assert not is_owned(tmp_path)  # what this node cannot know is no error
        done = subprocess.run(command, capture_output=True, text=True)
        assert "is being worked on already by process" in done.stderr
        assert "held" not in done.stdout
    assert subprocess.run(command, capture_output=True, text=True).stdout == "held\n"
