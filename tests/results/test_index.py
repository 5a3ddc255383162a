import json
import os
import subprocess
import sys
import time

import pytest

from semimedref.errors import UserError
from semimedref.results import index as module
from semimedref.results import store
from semimedref.results.index import Index

WORK = """
import sys, time
from pathlib import Path
from semimedref.results.index import Index
root, kind, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(count):
    with Index.open(root) as index:
        for folder in sorted(root.glob("phantom-*")):
            assert index.look(folder)[0] == "done"
            index.remember(kind, [folder / "per_image.csv"], lambda: i, parameters=[i])
"""


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files of a test are never older than a tick: trust them at once."""
    monkeypatch.setattr(module, "_TICK_NS", -(10**9))


@pytest.fixture
def unread(monkeypatch):
    """From now on nobody may read a result."""
    calls = []
    real = store.load_result

    def load(folder):
        calls.append(folder.name)
        return real(folder)

    monkeypatch.setattr(store, "load_result", load)
    return calls


def looked(lab, folder):
    with Index.open(lab.root) as index:
        return index.look(folder)


def stored(lab):
    (file,) = [Index.open(lab.root)._file]
    return file


def test_a_result_is_read_once_and_comes_back_whole(lab, unread):
    folders = [lab.finish(lab.cell(seed=f"s{i}"), dice=0.1 + 0.2 * i) for i in range(3)]
    first = [looked(lab, folder) for folder in folders]
    assert len(unread) == 3
    again = [looked(lab, folder) for folder in folders]
    assert len(unread) == 3
    assert first == again == [("done", store.load_result(folder)) for folder in folders]


def test_equal_parts_of_results_are_kept_once(lab):
    folders = [lab.finish(lab.cell(seed=f"s{i}")) for i in range(20)]
    with Index.open(lab.root) as index:
        for folder in folders:
            index.look(folder)
    pool = json.loads(stored(lab).read_text().partition("\n")[2])["pool"]
    assert len(pool) == 7  # environment, precision, parameters; method, ratio, seed, dataset


@pytest.mark.parametrize("how", ["in place", "replaced", "same size and time of modification"])
def test_a_changed_result_is_seen(lab, how):
    folder = lab.finish(lab.cell(), dice=0.25)
    looked(lab, folder)
    path = folder / "result.json"
    before, text = path.stat(), path.read_text().replace("0.25", "0.75")
    if how == "replaced":
        (folder / "new").write_text(text)
        (folder / "new").replace(path)
    else:
        time.sleep(0.02)  # another tick of the file system's clock
        path.write_text(text)
    if how.startswith("same"):
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert looked(lab, folder)[1]["test"]["dice"] == 0.75


def test_a_file_younger_than_a_tick_is_read_again(lab, unread, monkeypatch):
    monkeypatch.setattr(module, "_TICK_NS", 10**12)
    folder = lab.finish(lab.cell())
    looked(lab, folder), looked(lab, folder)
    assert len(unread) == 2


def test_states_without_a_result_are_asked_each_time(lab):
    folder = lab.start(lab.cell())
    assert looked(lab, folder) == ("missing", None)
    (folder / "last.pt").touch()
    assert looked(lab, folder) == ("paused", None)
    (folder / "failure.json").write_text('{"error": "no memory"}')
    assert looked(lab, folder) == ("failed", None)
    assert looked(lab, lab.root / "nowhere") == ("missing", None)


def test_a_run_whose_result_is_deleted_is_no_longer_done(lab):
    folder = lab.finish(lab.cell())
    assert looked(lab, folder)[0] == "done"
    (folder / "result.json").unlink()
    assert looked(lab, folder) == ("missing", None)


def test_a_broken_result_is_an_error_every_time(lab):
    folder = lab.finish(lab.cell())
    looked(lab, folder)
    (folder / "result.json").write_text("{")
    for _ in range(2):
        with pytest.raises(UserError, match=r"result\.json is not valid JSON"):
            looked(lab, folder)


def test_a_number_is_computed_once_for_equal_contents_and_parameters(lab):
    folder = lab.finish(lab.cell())
    path, calls = folder / "per_image.csv", []

    def number(*parameters, files=(path,)):
        def compute():
            calls.append(parameters)
            return [0.1 + len(calls), None]

        with Index.open(lab.root) as index:
            return index.remember("ci", files, compute, parameters=parameters)

    assert number(2000, 0) == number(2000, 0) == [1.1, None]
    assert number(2000, 1) == [2.1, None]
    assert number(2000, 0, files=(path, path)) == [3.1, None]
    text = path.read_text()
    time.sleep(0.02)
    path.write_text(text.replace("i0,p0,30", "i0,p0,31"))
    assert number(2000, 0) == [4.1, None]
    time.sleep(0.02)
    path.write_text(text)
    assert number(2000, 0) == [5.1, None]  # what was known of a content that was gone is dropped


def test_a_number_of_other_code_is_computed_again(lab, monkeypatch):
    folder = lab.finish(lab.cell())
    values = iter([1, 2, 3])
    for expected in (1, 1):
        with Index.open(lab.root) as index:
            assert index.remember("n", [folder / "per_image.csv"], values.__next__) == expected
    monkeypatch.setattr(module, "_code", lambda: "edited")
    with Index.open(lab.root) as index:
        assert index.remember("n", [folder / "per_image.csv"], values.__next__) == 2


def test_a_file_that_changes_during_a_computation_is_not_remembered(lab):
    path = lab.finish(lab.cell()) / "per_image.csv"
    text = path.read_text()

    def compute():
        time.sleep(0.02)
        path.write_text(text + "i9,p9,1,1,1,0.5\n")
        return "of whichever content"

    with Index.open(lab.root) as index:
        index.remember("n", [path], compute)
        path.write_text(text)
        assert index.remember("n", [path], lambda: "of the first") == "of the first"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'dice\\":0.5', b'dice\\":0.9'),
        lambda data: b"\x00" * len(data),
        lambda data: b"[]\n[]",
    ],
)
def test_a_damaged_index_is_made_anew(lab, damage):
    folder = lab.finish(lab.cell(), dice=0.5)
    first = looked(lab, folder)
    file = stored(lab)
    whole = file.read_bytes()
    assert damage(whole) != whole
    file.write_bytes(damage(whole))
    assert looked(lab, folder) == first
    assert module._read(file).files.keys() == {f"{folder.name}/result.json"}


def test_an_index_of_another_format_is_made_anew(lab, monkeypatch):
    folder = lab.finish(lab.cell())
    monkeypatch.setattr(module, "_FORMAT", 999)
    first = looked(lab, folder)
    monkeypatch.undo()
    assert looked(lab, folder) == first


def test_without_a_place_to_write_nothing_is_kept_and_nothing_fails(lab, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path / "file" / "cache"))
    folder = lab.finish(lab.cell())
    for _ in range(2):
        assert looked(lab, folder)[0] == "done"


def test_a_read_only_run_root_is_only_read(lab):
    folder = lab.finish(lab.cell())
    before = sorted(lab.root.rglob("*"))
    looked(lab, folder)
    assert sorted(lab.root.rglob("*")) == before


def test_what_is_gone_is_forgotten(lab):
    kept, gone = lab.finish(lab.cell()), lab.finish(lab.cell(seed="s1"), dice=0.7)
    with Index.open(lab.root) as index:
        for folder in (kept, gone):
            index.look(folder)
            index.remember("n", [folder / "per_image.csv"], lambda: 1, parameters=[folder.name])
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    with Index.open(lab.root) as index:
        index.remember("n", [kept / "per_image.csv"], lambda: 2)
    assert {key.partition("/")[0] for key in module._read(stored(lab)).files} == {kept.name}


def test_two_processes_write_one_index_and_both_read_it(lab):
    for i in range(3):
        lab.finish(lab.cell(seed=f"s{i}"))
    command = [sys.executable, "-c", WORK, str(lab.root)]
    both = [subprocess.Popen([*command, kind, "25"]) for kind in "ab"]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    content = module._read(stored(lab))
    assert len(content.files) == 6
    assert content.numbers


def test_a_later_writer_keeps_what_an_earlier_one_learned(lab):
    folder = lab.finish(lab.cell())
    path = folder / "per_image.csv"
    with Index.open(lab.root) as slow:
        with Index.open(lab.root) as quick:
            quick.remember("quick", [path], lambda: 1)
        slow.remember("slow", [path], lambda: 2)
    with Index.open(lab.root) as index:
        assert index.remember("quick", [path], lambda: "again") == 1
        assert index.remember("slow", [path], lambda: "again") == 2
