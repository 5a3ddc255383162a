import fcntl
import json
import subprocess
import sys

import pytest

from semimedref.errors import UserError
from semimedref.files import is_locked
from semimedref.results import store

HOLD_LOCK = """
import fcntl, sys
handle = open(sys.argv[1], "w")
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_empty_folder_is_missing(tmp_path):
    assert store.state(tmp_path / "nowhere") == "missing"


def test_result_makes_a_run_done_even_beside_leftovers(lab):
    folder = lab.finish(lab.cell())
    (folder / "failure.json").write_text('{"error": "old"}')
    (folder / "last.pt").write_bytes(b"")
    assert store.state(folder) == "done"


def test_failure_goes_before_paused(lab):
    folder = lab.start(lab.cell())
    (folder / "last.pt").write_bytes(b"")
    assert store.state(folder) == "paused"
    (folder / "failure.json").write_text(json.dumps({"error": "OutOfMemory: 3 GB\nmore"}))
    assert store.state(folder) == "failed"
    assert store.load_failure(folder) == "OutOfMemory: 3 GB"


def test_lock_held_by_another_process_means_running_until_it_dies(lab):
    folder = lab.start(lab.cell())
    (folder / "last.pt").write_bytes(b"")
    command = [sys.executable, "-c", HOLD_LOCK, str(folder / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert store.state(folder) == "running"
        process.kill()
        process.wait()
        assert store.state(folder) == "paused"  # the file is still there, its owner is not
        assert (folder / ".lock").exists()


def test_looking_at_a_lock_leaves_it_free(lab):
    folder = lab.start(lab.cell())
    (folder / ".lock").touch()
    assert not is_locked(folder / ".lock")
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if somebody still holds it
        assert is_locked(folder / ".lock")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"status": "done", "config": {}}'])
def test_broken_result_names_the_file_and_the_command(lab, text):
    folder = lab.finish(lab.cell())
    (folder / "result.json").write_text(text)
    with pytest.raises(UserError, match=r"result\.json.*semimedref status") as error:
        store.load_result(folder)
    assert "\n" not in str(error.value)


def test_metrics_line_that_is_still_being_written_is_left_out(lab):
    folder = lab.start(lab.cell(), val_dice=[0.1, 0.2])
    with (folder / "metrics.jsonl").open("a") as handle:
        handle.write('{"epoch": 3, "val/di')
    assert [row["val/dice"] for row in store.load_metrics(folder)] == [0.1, 0.2]


def test_broken_metrics_line_is_named(lab):
    folder = lab.start(lab.cell(), val_dice=[0.1, 0.2])
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text().replace('"epoch": 1', '"epoch" 1'))
    with pytest.raises(UserError, match=r"metrics\.jsonl line 1 .*semimedref status"):
        store.load_metrics(folder)


def test_run_without_metrics_has_none(tmp_path):
    assert store.load_metrics(tmp_path) == []


def test_per_image_keeps_ids_as_text_and_counts_as_integers(lab):
    folder = lab.finish(lab.cell(), [("007", "NA", 1, 2, 3)])
    frame = store.load_per_image(folder)
    assert frame.loc[0, ["id", "patient"]].tolist() == ["007", "NA"]
    assert frame.loc[0, ["tp", "fp", "fn"]].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id,patient,tp,fp,fn\na,p,1,1,1\n",
        "id,patient,tp,fp,fn,dice\n",
        "id,patient,tp,fp,fn,dice\na,p,1.5,1,1,1\n",
        "id,patient,tp,fp,fn,dice\na,p,-1,1,1,1\n",
        "id,patient,tp,fp,fn,dice\na,p,1,1,1,1\na,p,1,1,1,1\n",
    ],
)
def test_broken_per_image_names_the_file_and_the_command(tmp_path, text):
    (tmp_path / "per_image.csv").write_text(text)
    with pytest.raises(UserError, match=r"per_image\.csv .*semimedref status"):
        store.load_per_image(tmp_path)


def test_overlay_index_never_reaches_outside_its_folder(tmp_path):
    (tmp_path / "overlays").mkdir()
    entry = {"id": "a", "text": "t", "dice": 0.5, "file": "../../secret.png", "kind": "best"}
    (tmp_path / "overlays" / "index.json").write_text(json.dumps([entry]))
    (overlay,) = store.load_overlays(tmp_path)
    assert overlay.path == tmp_path / "overlays" / "secret.png"


def test_two_readers_do_not_take_each_other_for_a_run(tmp_path):
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not is_locked(tmp_path / ".lock")
