"""A check that crashes, hangs or is killed ends alone, and what it had found is kept."""

import sys
import time

import pytest

from semimedref.gpu_check.finding import Finding
from semimedref.gpu_check.processes import Outcome, run_check


@pytest.fixture
def python(tmp_path, monkeypatch):
    """A program in the place of Python that writes a finding, then does what the test says."""

    def install(then):
        script = tmp_path / "python.sh"
        found = '{"subject": "first", "state": "ok", "found": "42"}'
        where = 'out=$(dirname "$4")/findings.jsonl'
        script.write_text(
            f"#!/bin/sh\n{where}\necho '{found}' > $out\necho last words >&2\n{then}\n"
        )
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return install


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("exit 7", "ended with code 7: last words"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("sleep 60", "not done after 0.005 minutes"),
    ],
)
def test_findings_before_the_end_are_kept(settings, tmp_path, python, then, said):
    python(then)
    outcome = run_check("matmul", settings, folder=tmp_path, minutes=0.005)
    assert [(f.subject, f.state) for f in outcome.findings] == [("first", "ok"), ("", "failed")]
    assert outcome.state == "failed" and outcome.findings[-1].found == said


def test_a_check_that_ends_well_has_its_findings_alone(settings, tmp_path, python):
    python("exit 0")
    outcome = run_check("matmul", settings, folder=tmp_path)
    assert outcome.state == "ok" and len(outcome.findings) == 1


@pytest.mark.parametrize(
    ("states", "whole"),
    [("ok ok", "ok"), ("ok failed", "failed"), ("skipped", "skipped"), ("skipped ok", "ok")],
)
def test_one_failed_finding_makes_a_failed_check(states, whole):
    assert Outcome("x", [Finding("", s, "") for s in states.split()], 1.0).state == whole


@pytest.mark.slow
def test_a_real_check_runs_in_a_real_process(settings, tmp_path):
    outcome = run_check("matmul", settings, folder=tmp_path)
    assert outcome.state == "ok", outcome
    assert [f.subject for f in outcome.findings] == ["fp32", "tf32", "bf16", "fp16"]


def test_an_exception_is_a_failed_finding_with_its_traceback(setup, monkeypatch):
    from semimedref.gpu_check import child
    from semimedref.gpu_check.checks import matmul

    def broken(setup):
        raise ZeroDivisionError("by zero")
        yield

    monkeypatch.setattr(matmul, "check", broken)
    (finding,) = child.findings("matmul", setup)
    assert finding.found == "ZeroDivisionError: by zero"
    assert "by zero" in finding.values["traceback"][-1]


def test_whatever_a_check_started_ends_with_it(settings, tmp_path, python):
    marker = tmp_path / "alive"
    python(f"(sleep 1; touch {marker}) & sleep 60")
    run_check("matmul", settings, folder=tmp_path, minutes=0.002)
    time.sleep(1.5)
    assert not marker.exists()
