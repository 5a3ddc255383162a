"""How a run looks in MLflow: its name, its table of test images, its charts."""

import json
from pathlib import Path

import fake_runs
import pytest
from live_mlflow import artifacts, only_run, store_at

from semimedref.tracking import sync_run

PER_IMAGE = (
    "id,patient,position,tp,fp,fn,dice,nsd\na,p9,upper left,70,30,30,0.7,1.5\nb,p9,,0,0,5,0,\n"
)


@pytest.mark.parametrize(
    ("images", "names"), [("phantom", ["a", "b"]), ("never", ["line 2", "line 3"])]
)
def test_test_images_are_a_table_that_names_no_patient(root, done, images, names):
    (done / "per_image.csv").write_text(PER_IMAGE)
    store = store_at(f"sqlite:///{root}/mlflow.db", root, images=images)
    sync_run(done, store)
    assert sync_run(done, store) == 0
    run = only_run(store)
    table = json.loads((Path(run.info.artifact_uri) / "per_image.json").read_text())
    assert table == {
        "columns": ["image", "dice", "error", "position", "patient", "tp", "fp", "fn", "nsd"],
        "data": [
            [names[0], 0.7, "good", "upper left", 1, 70, 30, 30, 1.5],
            [names[1], 0.0, "missed lesion", "", 1, 0, 0, 5, None],
        ],
    }
    tables = json.loads(run.data.tags["mlflow.loggedArtifacts"])
    assert tables == [{"path": "per_image.json", "type": "table"}]


def test_a_run_that_was_laid_out_otherwise_is_mirrored_anew(done, store):
    sync_run(done, store)
    old = only_run(store).info.run_id
    store.client.set_tag(old, "layout", "1")
    assert sync_run(done, store) > 0
    assert only_run(store).info.run_id != old
    assert sync_run(done, store) == 0


def test_an_image_that_all_runs_show_has_one_name_in_all_charts(done, store):
    fake_runs.write_overlays(done)
    path = done / "overlays" / "index.json"
    index = json.loads(path.read_text())
    index[1]["fixed"] = 3
    path.write_text(json.dumps(index))
    sync_run(done, store)
    charts = {Path(path).name.partition("+")[0] for path in artifacts(store, "images")}
    assert charts == {"view~median_1", "view~worst_1", "view~fixed_3"}
    assert sync_run(done, store) == 0


def test_experiment_is_said_to_train_models(store):
    tags = store.client.get_experiment(store.experiment_id).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_run_outside_a_table_is_called_by_its_method(root, cfg, store):
    sync_run(fake_runs.start_run(root, 1, cfg), store)
    assert only_run(store).info.run_name == "teacher_student mmi_unet · 2pct · s42 · 0000"
