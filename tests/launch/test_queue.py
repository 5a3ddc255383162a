"""What ``status`` makes of SLURM's answers; the answers are those of SLURM 22.05."""

import json
import os

import pytest

from semimedref.errors import UserError
from semimedref.launch import slurm_commands, slurm_job
from semimedref.launch.queue import Place, is_taken_away, places, require_answer, seen
from semimedref.launch.slurm_job import is_preempted, is_timed_out
from semimedref.launch.submission import jobs_of_cells, remember, submissions, submitters


@pytest.fixture
def answers(monkeypatch):
    """What the programs print, by the first word."""
    told = {}
    monkeypatch.setattr(slurm_commands, "_ask", lambda words: told.get(words[0]))
    monkeypatch.setattr(slurm_commands, "is_here", lambda: True)
    slurm_commands._queued_jobs.cache_clear()
    return told


def test_the_last_submission_of_a_cell_counts(tmp_path):
    remember(tmp_path, ["7_0", "7_1"], cells=[["a"], ["b", "c"]], code="x")
    remember(tmp_path, ["9"], cells=[["b"]], code="x")
    assert jobs_of_cells(tmp_path) == {"a": "7_0", "b": "9", "c": "7_1"}
    assert [s.array for s in submissions(tmp_path)] == [True, False]


def test_a_damaged_record_hides_no_other(tmp_path):
    remember(tmp_path, ["7_0"], cells=[["a"]], code="x")
    (tmp_path / ".slurm" / "8.json").write_text("{")
    assert jobs_of_cells(tmp_path) == {"a": "7_0"}


def test_cells_wait_run_or_are_gone(tmp_path, answers):
    remember(tmp_path, ["7_0", "7_1", "7_2"], cells=[["a"], ["b"], ["c"]], code="x")
    answers["squeue"] = "7_0|RUNNING|None\n7_1|PENDING|Resources\n8|PENDING|Priority\n"
    assert places(tmp_path) == {
        "a": Place("7_0", "runs", "None"),
        "b": Place("7_1", "waits", "Resources"),
        "c": Place("7_2", "gone"),
    }


def test_a_slurm_that_does_not_answer_changes_no_state(tmp_path, answers):
    remember(tmp_path, ["7_0"], cells=[["a"]], code="x")
    answers["squeue"] = None
    assert places(tmp_path) == {}


def test_nothing_is_submitted_while_slurm_does_not_answer(tmp_path, answers):
    require_answer(tmp_path)  # nothing was submitted before: nothing can be doubled
    remember(tmp_path, ["7_0"], cells=[["a"]], code="x")
    answers["squeue"] = None
    with pytest.raises(UserError, match="squeue gives no answer"):
        require_answer(tmp_path)


def test_a_task_names_itself_and_not_its_array(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    assert slurm_job._own_job() == "7"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert slurm_job._own_job() == "7_3"


def test_nothing_submitted_asks_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_commands, "queued_jobs", lambda users: pytest.fail("asked"))
    assert places(tmp_path) == {}


@pytest.mark.parametrize(
    ("found", "at", "expected"),
    [
        ("missing", "waits", "queued"), ("paused", "waits", "queued"),
        ("missing", "runs", "running"), ("running", "runs", "running"), ("done", "gone", "done"),
        ("missing", "gone", "failed"),
        ("paused", "gone", "failed"), ("failed", "gone", "failed"), ("running", "gone", "running"),
    ],
)  # fmt: skip
def test_folder_and_queue_make_a_state(found, at, expected):
    assert seen(found, Place("7_0", at)) == expected
    assert seen(found, None) == found


def test_only_what_was_taken_away_is_run_again_without_asking(tmp_path):
    gone = Place("7_0", "gone")
    assert is_taken_away(tmp_path, "missing", gone)
    assert is_taken_away(tmp_path, "paused", gone)
    assert not is_taken_away(tmp_path, "paused", Place("7_0", "waits"))
    (tmp_path / "failure.json").write_text(json.dumps({"error": "x"}))
    assert not is_taken_away(tmp_path, "failed", gone)
    (tmp_path / "failure.json").write_text(json.dumps({"error": "x", "lost": True}))
    assert is_taken_away(tmp_path, "failed", None)
    assert not is_taken_away(tmp_path, "failed", Place("7_0", "waits"))  # it has come back


def test_how_a_job_ended_comes_from_the_controller_or_the_database(answers, monkeypatch):
    answers["scontrol"] = "JobId=8 ArrayJobId=7 JobState=CANCELLED Reason=None ExitCode=0:15\n"
    assert slurm_commands.end_of("7_1") == "ended as CANCELLED (exit code 0:15) without a result"
    monkeypatch.setattr(slurm_commands.shutil, "which", lambda name: name)
    answers |= {"scontrol": None, "sacct": "OUT_OF_MEMORY|0:125\n"}
    told = slurm_commands.end_of("7_1")
    assert told == "ended as OUT_OF_MEMORY (exit code 0:125) without a result"
    answers["sacct"] = None
    assert slurm_commands.end_of("7_1") == "has left the queue without a result"


def test_the_largest_array_is_asked_of_the_cluster(answers):
    answers["scontrol"] = "MaxArraySize            = 1001\nMaxBatchRequeue = 5\n"
    assert slurm_commands.max_array_size() == 1001
    answers["scontrol"] = None
    assert slurm_commands.max_array_size() is None


def test_a_preemption_is_no_timeout_however_short_the_job(monkeypatch):
    from datetime import datetime, timedelta

    soon = (datetime.now() + timedelta(seconds=20)).isoformat(timespec="seconds")
    late = (datetime.now() + timedelta(hours=1)).isoformat(timespec="seconds")
    preempted = {"PreemptTime": "2026-11-16T17:10:50", "EndTime": soon}
    assert is_preempted(preempted)
    assert not is_timed_out(preempted, delay=30)
    assert is_timed_out({"PreemptTime": "None", "EndTime": soon}, delay=30)
    assert not is_timed_out({"PreemptTime": "None", "EndTime": late}, delay=30)  # asked by hand
    assert is_timed_out({}, delay=30)  # without an answer a job must not come back for ever


def test_everybody_who_submitted_from_a_shared_run_root_is_asked_for(tmp_path, monkeypatch):
    remember(tmp_path, ["7_0"], cells=[["a"]], code="x")
    remember(tmp_path, ["9"], cells=[["b"]], code="x")
    os.chown(tmp_path / ".slurm" / "9.json", 4321, -1) if os.getuid() == 0 else None
    users = submitters(tmp_path)
    assert users == ([0, 4321] if os.getuid() == 0 else [os.getuid()])
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$*|$SQUEUE_STATES" >> "$(dirname "$0")/asked"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")  # would hide jobs that wait
    slurm_commands.forget()
    assert {name: place.at for name, place in places(tmp_path).items()} == {
        "a": "gone",
        "b": "gone",
    }
    (asked,) = (program.parent / "asked").read_text().splitlines()
    assert f"--user={','.join(map(str, users))} " in asked and asked.endswith("|")


def test_the_command_for_a_lost_cell_names_the_launcher_and_asks_for_no_retry(tmp_path, answers):
    from semimedref.results.runs import read_runs
    from semimedref.sweep import expand

    words = ["experiment=quickstart", "scale=smoke", "dataset=phantom_tiny", f"run_root={tmp_path}"]
    experiment = expand(words)
    remember(tmp_path, ["7_0"], cells=[[experiment.cells[0].name]], code="x")
    answers |= {"squeue": "", "scontrol": "JobState=CANCELLED ExitCode=0:0"}
    lost, other = read_runs(experiment)[:2]
    assert lost.state == "failed" and "it had not started" in lost.problem
    assert "hydra/launcher=slurm" in lost.command and "retry_failed" not in lost.command
    assert "hydra/launcher" not in other.command


def test_a_job_that_can_never_start_is_told_so(tmp_path, capsys):
    from semimedref.launch.watch import _tell

    waits = {"a": Place("7_0", "waits", "PartitionConfig"), "b": Place("7_1", "waits", "None")}
    line = _tell(tmp_path, ["a", "b"], waits, "")
    assert "2 queued (1 PartitionConfig); such a job never starts: `scancel` it" in line
    assert line in capsys.readouterr().out
    waits["a"] = Place("7_0", "waits", "Resources")
    assert "never starts" not in _tell(tmp_path, ["a", "b"], waits, line)
