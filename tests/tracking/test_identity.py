"""Which MLflow run is a folder's own, on a server that a lab shares."""

import json

import fake_runs
import pytest

from semimedref.tracking import sync_run


@pytest.fixture
def two_people(root, tmp_path):
    """The same cell, trained by two people: the same signature, other times."""
    folders = []
    for number, person in enumerate(("ann", "bob")):
        cfg = fake_runs.config(root)
        folder = fake_runs.start_run(tmp_path / person, 7, cfg)
        fake_runs.write_epochs(folder, [1, 2], time=fake_runs.CREATED + 100 * number)
        folders.append(folder)
    return folders


def active(store):
    return store.client.search_runs([store.experiment_id])


def note(folder):
    return json.loads((folder / "mlflow.json").read_text())


def test_two_people_who_train_the_same_cell_have_a_run_each(two_people, store):
    ann, bob = two_people
    sync_run(ann, store)
    sync_run(bob, store)
    assert len(active(store)) == 2
    assert note(ann)["run_id"] != note(bob)["run_id"]
    assert sync_run(ann, store) == sync_run(bob, store) == 0


def test_other_numbers_of_another_person_retire_nobodys_run(two_people, store):
    ann, bob = two_people
    sync_run(ann, store)
    row = fake_runs.epoch_row(1) | {"val/dice": 0.123}
    (bob / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    for folder in (bob, ann, bob):
        sync_run(folder, store)
    assert {run.data.tags["status"] for run in active(store)} == {"paused"}
    assert len(active(store)) == 2


def test_a_folder_that_starts_takes_no_finished_run_of_another(two_people, store):
    ann, bob = two_people
    fake_runs.finish(ann, 2)
    sync_run(ann, store)
    (bob / "metrics.jsonl").unlink()
    sync_run(bob, store)
    assert sorted(run.info.status for run in active(store)) == ["FINISHED", "KILLED"]


def test_a_run_that_was_created_twice_is_kept_once(two_people, store):
    """A request whose answer is lost is repeated, and both may have been carried out."""
    ann, bob = two_people
    sync_run(ann, store)
    sync_run(bob, store)
    tags = {key: note(ann)[key] for key in ("origin",)} | {"signature": fake_runs.signature_of(7)}
    store.client.create_run(store.experiment_id, tags=tags)
    assert len(active(store)) == 3
    assert sync_run(ann, store) == 0
    assert {run.info.run_id for run in active(store)} == {note(ann)["run_id"], note(bob)["run_id"]}


def test_a_run_whose_creation_was_not_answered_is_found(root, store, monkeypatch):
    folder = fake_runs.start_run(root, 1, fake_runs.config(root))
    create = store.client.create_run

    def lose_the_answer(*given, **named):
        create(*given, **named)
        raise TimeoutError("no answer")

    monkeypatch.setattr(store.client, "create_run", lose_the_answer)
    with pytest.raises(TimeoutError):
        sync_run(folder, store)
    sync_run(folder, store)
    assert len(active(store)) == 1
    assert active(store)[0].data.tags["origin"] == note(folder)["origin"]


def test_a_run_mirrored_before_folders_had_an_origin_gets_one(two_people, store):
    ann, _ = two_people
    sync_run(ann, store)
    old = note(ann)
    store.client.delete_tag(old["run_id"], "origin")
    del old["origin"]
    (ann / "mlflow.json").write_text(json.dumps(old))
    assert sync_run(ann, store) == 1  # the tag
    assert [run.info.run_id for run in active(store)] == [old["run_id"]]
    assert note(ann)["origin"] == active(store)[0].data.tags["origin"]


def test_rows_are_not_asked_for_when_the_last_one_is_there(two_people, store, monkeypatch):
    ann, _ = two_people
    sync_run(ann, store)
    fake_runs.write_epochs(ann, [3, 4])
    asked = []
    history = store.client.get_metric_history
    monkeypatch.setattr(
        store.client, "get_metric_history", lambda *a: asked.append(a) or history(*a)
    )
    assert sync_run(ann, store) == 10
    assert asked == []
    assert sync_run(ann, store, verify=True) == 0
    assert len(asked) == 5
