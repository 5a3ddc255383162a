import getpass
import json
import socket

import pytest

from semimedref.gpu_check import report
from semimedref.gpu_check.finding import Finding, ok
from semimedref.gpu_check.processes import Outcome

STEP = {
    "batch_size": 32, "step_seconds": 0.25, "images_per_second": 256.0, "flop_per_step": 5e12,
    "tflops": 20.0, "allocated_bytes": 3 * 2**30, "precision": "fp32",
}  # fmt: skip


@pytest.fixture
def outcomes(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "node17.lab.org")
    monkeypatch.setattr(getpass, "getuser", lambda: "mueller")
    secret = "no such file: /home/mueller/data/x.png, says node17.lab.org to mueller, node17 too"
    return [
        Outcome("machine", [ok("", "a GPU", gpu="NVIDIA RTX 3090", processor="NVIDIA")], 3.0),
        Outcome("speed", [ok("Baseline", "fast", **STEP)], 9.0),
        Outcome(
            "sync", [Finding("", "failed", secret, "nothing", "do|this", {"log": [secret]})], 1
        ),
    ]


def test_both_files_are_named_by_gpu_and_date(outcomes, settings, tmp_path):
    file = report.write(tmp_path / "out", outcomes, settings)
    content = json.loads(file.with_suffix(".json").read_text())
    assert file.name == f"nvidia-rtx-3090-{content['date']}.md"
    assert content["state"] == "failed" and len(content["checks"]) == 3
    assert content["checks"][1]["findings"][0]["values"]["tflops"] == 20.0


def test_no_user_no_machine_and_no_folder_are_in_it(outcomes, settings, tmp_path):
    file = report.write(tmp_path / "out", outcomes, {**settings, "out": str(tmp_path / "out")})
    for text in (file.read_text(), file.with_suffix(".json").read_text()):
        for name in ("mueller", "node17", "lab.org", "/home", str(tmp_path)):
            assert name not in text
        assert "x.png" in text  # what was wrong can still be read


def test_a_person_reads_what_failed_and_how_fast_it_is(outcomes, settings, tmp_path):
    text = report.write(tmp_path, outcomes, settings).read_text()
    assert report.SEND in text and text.startswith("# GPU check: failed")
    assert "| Baseline | 32 + 32 | 250.0 | 256.0 | 3.00 | 5 | 20 |" in text
    assert "`semimedref plan experiment=main gpu=own gpu.peak_tflops.fp32=20`" in text
    assert "| sync | FAILED |" in text and "do\\|this" in text


def test_numbers_of_the_settings_are_part_of_the_report(outcomes, settings, tmp_path):
    file = report.write(tmp_path, outcomes, settings)
    kept = json.loads(file.with_suffix(".json").read_text())["settings"]
    assert kept["locked"]["all"] == settings["locked"]["all"] and "out" not in kept
