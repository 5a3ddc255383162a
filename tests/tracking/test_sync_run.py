"""The MLflow run is the folder: no more, no less, however often it is pushed."""

import json
import os
import random
from pathlib import Path

import fake_runs
import numpy as np
import pytest
from live_mlflow import artifacts, history, only_run, store_at

from semimedref.tracking import sync_run


def test_a_finished_run_arrives_whole(done, store):
    sync_run(done, store)
    run = only_run(store)
    assert run.info.run_name == "Teacher-student · 2pct · s42 · 0000"
    assert run.info.status == "FINISHED"
    assert run.info.start_time == 1_700_000_000_000
    assert run.info.end_time == 1_700_001_000_000
    assert history(store)[done.name] == [(50, 0.5), (100, 1 - 1 / 3), (150, 0.75)]
    (first, *_) = store.client.get_metric_history(run.info.run_id, "val/dice")
    assert first.timestamp == 1_700_000_010_000
    expected = {"test/dice": 0.75, "test/images": 600, "val/best_dice": 0.5}
    expected |= {
        "resources/parameters_trainable": 20,
        "resources/wall_seconds": 12.5,
        "train/lr": 0.1,
    }
    expected |= {"resources/epoch": 3, "resources/best_epoch": 2}
    assert expected.items() <= run.data.metrics.items()
    assert "test/dice_text_blind_oracle" not in run.data.metrics
    assert run.data.params["method.momentum_end"] == "0.99"
    assert run.data.params["method.model.widths"] == "[8, 16]"
    tags = {"signature": "000000000001", "row": "Teacher-student", "dataset": "phantom"}
    tags |= {"ratio": "2pct", "seed": "s42", "method": "teacher_student", "model": "mmi_unet"}
    tags |= {"status": "done", "git_commit": "c0ffee", "name": done.name}
    assert tags.items() <= run.data.tags.items()
    assert artifacts(store) == {"run.json", "result.json"}


def test_a_second_sync_sends_nothing(done, store):
    assert sync_run(done, store) > 0
    before = history(store), history(store, "resources/seconds"), history(store, "test/dice")
    assert sync_run(done, store) == 0
    assert (
        history(store),
        history(store, "resources/seconds"),
        history(store, "test/dice"),
    ) == before


def test_each_epoch_sends_only_its_own_row(root, cfg, store):
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, [1])
    sync_run(folder, store)
    fake_runs.write_epochs(folder, [2])
    assert sync_run(folder, store) == 5  # epoch, seconds, lr, train/loss, val/dice
    assert history(store)[folder.name] == [(50, 0.5), (100, 1 - 1 / 3)]


def test_rows_written_again_after_a_resume_are_not_doubled(root, cfg, store):
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, [1, 2, 3])
    sync_run(folder, store)
    (folder / "metrics.jsonl").unlink()
    fake_runs.write_epochs(folder, [1])
    fake_runs.write_epochs(folder, [2, 3, 4], time=fake_runs.CREATED + 500)
    sync_run(folder, store)
    assert [step for step, _ in history(store)[folder.name]] == [50, 100, 150, 200]
    assert [step for step, _ in history(store, "resources/seconds")[folder.name]] == [
        50,
        100,
        150,
        200,
    ]


def test_a_folder_trained_anew_replaces_the_old_run(done, store):
    sync_run(done, store)
    old = only_run(store).info.run_id
    rows = [fake_runs.epoch_row(epoch) | {"val/dice": 0.1} for epoch in (1, 2)]
    (done / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (done / "result.json").unlink()
    sync_run(done, store)
    assert sync_run(done, store) == 0
    runs = store.client.search_runs([store.experiment_id])
    by_status = {run.data.tags["status"]: run for run in runs}
    assert set(by_status) == {"superseded", "paused"}
    assert by_status["superseded"].info.run_id == old
    assert "signature" not in by_status["superseded"].data.tags
    new = by_status["paused"].info.run_id
    values = [metric.value for metric in store.client.get_metric_history(new, "val/dice")]
    assert values == [0.1, 0.1]


def test_the_run_is_found_by_its_signature_when_mlflow_json_is_lost(done, store):
    sync_run(done, store)
    (done / "mlflow.json").unlink()
    assert sync_run(done, store) == 0
    assert only_run(store).info.run_id == json.loads((done / "mlflow.json").read_text())["run_id"]


def test_mlflow_json_of_another_store_is_not_believed(done, store):
    note = {"uri": "http://127.0.0.1:1", "run_id": "0" * 32, "experiment_id": "9"}
    (done / "mlflow.json").write_text(json.dumps(note))
    sync_run(done, store)
    assert json.loads((done / "mlflow.json").read_text()) == {
        "origin": only_run(store).data.tags["origin"],
        "uri": store.uri,
        "run_id": only_run(store).info.run_id,
        "experiment_id": store.experiment_id,
    }


def test_a_run_deleted_in_mlflow_comes_back(done, store):
    sync_run(done, store)
    store.client.delete_run(only_run(store).info.run_id)
    assert sync_run(done, store) > 0
    assert len(history(store)[done.name]) == 3


def test_status_follows_the_folder(root, cfg, store):
    folder = fake_runs.start_run(root, 1, cfg)
    with fake_runs.training(folder):
        sync_run(folder, store)
        assert only_run(store).info.status == "RUNNING"
        failure = {"error": "out of memory", "traceback": "", "time": fake_runs.CREATED + 7}
        (folder / "failure.json").write_text(json.dumps(failure))
        sync_run(folder, store)
        assert only_run(store).info.status == "FAILED"
        assert only_run(store).info.end_time == 1_700_000_007_000
        (folder / "failure.json").unlink()
        sync_run(folder, store)
        assert only_run(store).info.status == "RUNNING"
        sync_run(folder, store, leaving=True)
        assert only_run(store).info.status == "KILLED"
        sync_run(folder, store)
        assert only_run(store).info.status == "RUNNING"
    sync_run(folder, store)
    assert only_run(store).info.status == "KILLED"
    assert only_run(store).data.tags["status"] == "paused"


def test_a_row_that_is_being_written_is_left_for_later(root, cfg, store):
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, [1])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "step": 100, "ti')
    sync_run(folder, store)
    assert history(store)[folder.name] == [(50, 0.5)]


def test_odd_values_and_names_are_accepted_once(root, cfg, store):
    cfg["method"] |= {"note": "", "long": "ä" * 9000, "bad key (β)": 1, "k" * 400: 1, "none": None}
    folder = fake_runs.start_run(root, 1, cfg)
    odd = {"nan": float("nan"), "inf": float("-inf"), "a+b//c": 2.0, "text": "x", "flag": True}
    (folder / "metrics.jsonl").write_text(json.dumps(fake_runs.epoch_row(1) | odd) + "\n")
    sync_run(folder, store)
    assert sync_run(folder, store) == 0
    params, metrics = only_run(store).data.params, only_run(store).data.metrics
    assert params["method.note"] == ""
    assert len(params["method.long"]) == 500
    assert params["method.bad key ___"] == "1"
    assert len([key for key in params if "kkk" in key and len(key) == 250]) == 1
    assert "method.none" not in params
    assert metrics["a_b/c"] == 2.0
    assert np.isnan(metrics["nan"])
    assert metrics["inf"] < -1e308
    assert not {"text", "flag"} & set(metrics)


def test_more_params_and_metrics_than_one_batch_holds(root, cfg, store):
    cfg["method"]["many"] = {f"p{i}": i for i in range(250)}
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_epochs(folder, range(1, 501))  # 5 metrics each
    sync_run(folder, store)
    assert len(history(store)[folder.name]) == 500
    assert only_run(store).data.params["method.many.p249"] == "249"


@pytest.mark.parametrize(
    ("target", "images", "expected"),
    [
        ("semimedref.dataset.phantom.Phantom", "phantom", True),
        ("semimedref.dataset.qata_cov19.QataCov19", "phantom", False),
        ("semimedref.dataset.qata_cov19.QataCov19", "always", True),
        ("semimedref.dataset.phantom.Phantom", "never", False),
    ],
)
def test_images_leave_the_folder_only_where_allowed(root, cfg, target, images, expected):
    cfg["dataset"]["_target_"] = target
    folder = fake_runs.start_run(root, 1, cfg)
    fake_runs.write_overlays(folder)
    (folder / "per_image.csv").write_text("id,patient\n")
    store = store_at(f"sqlite:///{root}/mlflow.db", root, images=images)
    sync_run(folder, store)
    assert sync_run(folder, store) == 0
    pictures = {"overlays/median-case.png", "overlays/worst-case.png", "overlays/index.json"}
    assert artifacts(store, "overlays") == (pictures if expected else set())
    charts = {Path(path).name.partition("+")[0] for path in artifacts(store, "images")}
    assert charts == ({"view~median_1", "view~worst_1"} if expected else set())
    assert artifacts(store) <= {"run.json", "overlays", "images"}


def test_a_file_that_changed_or_was_lost_is_sent_again(done, store):
    sync_run(done, store)
    text = (done / "run.json").read_text()
    (done / "run.json").write_text(text.replace("1700000000.0", "1700000000.5"))  # same size
    assert sync_run(done, store) == 1
    stored = Path(only_run(store).info.artifact_uri)
    assert "1700000000.5" in (stored / "run.json").read_text()
    (stored / "result.json").unlink()
    assert sync_run(done, store) == 1
    assert (stored / "result.json").exists()


def test_global_random_generators_are_left_alone(done, store):
    fake_runs.write_overlays(done)
    python, numpy = random.getstate(), np.random.get_state()[1].tolist()
    sync_run(done, store)
    with pytest.raises(Exception, match="Max retries"):
        store_at("http://127.0.0.1:1", done)
    assert os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_JITTER"] == "0"  # drawn from a second retry on
    assert random.getstate() == python
    assert np.random.get_state()[1].tolist() == numpy
