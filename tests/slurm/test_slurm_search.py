"""A search whose trials are SLURM jobs."""

import json

from semimedref.launch.submission import submissions
from tests.command import ended
from tests.conftest import SMOKE
from tests.slurm.lab import ASKED, Lab

SEARCH = (
    "experiment=search_phantom", *SMOKE, "hardware.save_seconds=0", "search.trials=3",
    "search.batch=2", "search.stop.warmup=4", "scale.epochs=2",
)  # fmt: skip


def test_a_cancelled_trial_is_told_as_failed_and_the_search_goes_on(cluster, tmp_path):
    lab = Lab(tmp_path / "runs", cluster)
    process, log = lab.start("train", "-m", *SEARCH, *ASKED)
    cluster.wait(lambda: len(lab.jobs()) == 2, seconds=120)
    first = submissions(lab.root)[0].job
    lab.hold(f"{first}_0")
    cluster.run("scancel", f"{first}_0")
    assert ended(process) == 0, log.read_text()
    assert "3 trials, 2 done, 1 failed" in log.read_text()
    trials = _trials(lab)
    assert [t["state"] for t in trials] == ["failed", "done", "done"]
    assert "ended as CANCELLED" in trials[0]["reason"]
    code, out = lab.run("train", "-m", *SEARCH, *ASKED, "retry_failed=true")
    assert code == 0, out
    again = _trials(lab)
    assert [t["params"] for t in again] == [t["params"] for t in trials]
    assert {t["state"] for t in again} == {"done"}


def _trials(lab):
    (file,) = lab.root.glob("searches/*/study.json")
    return json.loads(file.read_text())["trials"]
