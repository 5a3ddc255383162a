"""A run inside a search: it stops at an epoch's end, stays resumable, and continues without it."""

import json

import pytest

from semimedref import config
from semimedref.errors import UserError
from semimedref.results.store import load_metrics, state
from semimedref.run import run
from semimedref.search.watch import Stopped, Watch
from semimedref.tracking.record import read_record
from semimedref.tracking.studies import study_tags

ATLAS = [
    "method=atlas", "model=text_atlas", "trainer=atlas", "augment=none", "ratio=15pct",
    "overlays=never", "method.thresholds=[0.1,0.2,0.3,0.4]", "trainer.epochs=4",
    "trainer.min_epochs=4",
]  # fmt: skip


def note(folder, limits, study="s-1"):
    (folder / "studies").mkdir(parents=True, exist_ok=True)
    content = {"study": study, "trials": [3], "objective": "val/dice", "limits": limits}
    (folder / "studies" / f"{study}.json").write_text(json.dumps(content))


def test_a_study_is_no_part_of_the_signature(compose_smoke):
    plain = config.resolved(compose_smoke())
    assert config.signature(plain) == config.signature(
        config.resolved(compose_smoke("study=s-1", 'row="trial 3"'))
    )


def test_a_stopped_run_is_paused_and_an_ordinary_training_ends_it(compose_smoke, tmp_path):
    cfg = compose_smoke(*ATLAS)
    folder = tmp_path / "multirun" / config.run_name(config.resolved(cfg))
    note(folder, {"2": 2.0})
    value = run(compose_smoke(*ATLAS, "study=s-1"))
    assert [row["epoch"] for row in load_metrics(folder)] == [1, 2]
    about = json.loads((folder / "stopped.json").read_text())
    assert about["epoch"] == 2 and about["best"] == value
    assert (folder / "last.pt").exists() and not (folder / "failure.json").exists()
    assert state(folder) == "paused"
    assert read_record(folder).tags()["trial"] == "3"
    assert study_tags(folder)["study"] == "s-1" and "epoch 2" in study_tags(folder)["stopped"]

    assert run(compose_smoke(*ATLAS, "study=s-1")) == value  # asked again: nothing is trained
    assert len(load_metrics(folder)) == 2

    run(cfg)
    assert state(folder) == "done" and not (folder / "stopped.json").exists()
    curve = [row["val/dice"] for row in load_metrics(folder)]
    straight = compose_smoke(*ATLAS, f"run_root={tmp_path / 'straight'}")
    run(straight)
    same = tmp_path / "straight" / folder.name
    assert curve == [row["val/dice"] for row in load_metrics(same)]


def test_a_study_without_its_note_is_refused(tmp_path):
    with pytest.raises(UserError, match="is set by a search"):
        Watch.open(tmp_path, {"study": "s-1"})


def test_equal_to_the_limit_goes_on(tmp_path):
    rows = [{"epoch": 1, "val/dice": 0.5}, {"epoch": 2, "val/dice": 0.4}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    note(tmp_path, {"1": 0.5, "2": 0.5})
    Watch.open(tmp_path, {"study": "s-1"}).check()
    note(tmp_path, {"2": 0.51})
    with pytest.raises(Stopped) as stopped:
        Watch.open(tmp_path, {"study": "s-1"}).check()
    assert (stopped.value.value, stopped.value.epoch) == (0.5, 2)
