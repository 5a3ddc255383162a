"""An archive that is not what ``semimedref export`` writes is refused, and nothing is written."""

import json
import stat
import zipfile

import pytest

from semimedref.errors import UserError
from semimedref.results import archive as module
from semimedref.results.unpacking import import_archive

from .test_moving import archive, three  # noqa: F401 - fixtures


def rewrite(path, change):
    """The archive with its manifest and entries changed: ``change(manifest, entries)``."""
    with zipfile.ZipFile(path) as source:
        entries = [[info, source.read(info)] for info in source.infolist()]
    manifest = json.loads(entries[-1][1])
    change(manifest, entries)
    if isinstance(manifest, dict):
        entries[-1][1] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as out:
        for info, content in entries:
            if info is not None:
                out.writestr(info, content)


def rename(manifest, entries, old, new):
    """A file under another name, in the manifest, too."""
    run = manifest["runs"][0]
    run["files"][new] = run["files"].pop(old)
    entry = next(e for e in entries if e[0].filename == f"{run['name']}/{old}")
    entry[0].filename = f"{run['name']}/{new}"


def rename_run(manifest, entries, name):
    run = manifest["runs"][0]
    for info, _ in entries:
        info.filename = info.filename.replace(run["name"], name)
    run["name"], run["signature"] = name, name.rpartition("-")[2]


def first(entries, ending):
    return next(e for e in entries if e[0].filename.endswith(ending))


def edit(entries, ending, old, new):
    entry = first(entries, ending)
    assert old in entry[1]
    entry[1] = entry[1].replace(old, new)


def link(manifest, entries):
    first(entries, "run.json")[0].external_attr = (stat.S_IFLNK | 0o777) << 16


def resigned(manifest, entries):
    """A changed configuration with correct hashes: only the signature tells."""
    import hashlib

    entry = first(entries, "run.json")
    entry[1] = entry[1].replace(b'"fraction": 0.02', b'"fraction": 0.03')
    run, _, file = entry[0].filename.partition("/")
    listed = next(r for r in manifest["runs"] if r["name"] == run)["files"][file]
    listed.update(sha256=hashlib.sha256(entry[1]).hexdigest(), bytes=len(entry[1]))


EVAL = "eval/valid-student-true_texts.json"
REFUSALS = {
    "above the root": (lambda m, e: rename(m, e, EVAL, "eval/../../../x.json"), "no file of a run"),
    "absolute": (lambda m, e: rename(m, e, EVAL, "/etc/x.json"), "no file of a run"),
    "backslash": (lambda m, e: rename(m, e, EVAL, "eval\\x.json"), "no file of a run"),
    "hidden": (lambda m, e: rename(m, e, EVAL, "eval/.x.json"), "no file of a run"),
    "a picture": (lambda m, e: rename(m, e, EVAL, "overlays/x.png"), "no file of a run"),
    "a pickle": (lambda m, e: rename(m, e, EVAL, "last.pt"), "no file of a run"),
    "a run above": (lambda m, e: rename_run(m, e, "../x-0123456789ab"), "no name of a run"),
    "a hidden run": (lambda m, e: rename_run(m, e, ".x-0123456789ab"), "no name of a run"),
    "a run without signature": (lambda m, e: rename_run(m, e, "tables"), "no name of a run"),
    "a link": (link, "no plain file"),
    "a folder": (lambda m, e: e.insert(0, [zipfile.ZipInfo("x/"), b""]), "not those of its"),
    "an unlisted file": (lambda m, e: e.insert(0, [zipfile.ZipInfo("x"), b""]), "not those of its"),
    "a missing file": (lambda m, e: first(e, "run.json").__setitem__(0, None), "not those of its"),
    "no result": (lambda m, e: m["runs"][0]["files"].pop("result.json"), "lacks run.json or"),
    "edited, same length": (lambda m, e: edit(e, "result.json", b"0.5", b"0.9"), "not the file"),
    "edited, longer": (lambda m, e: edit(e, "result.json", b"0.5", b"0.95"), "bytes long"),
    "another configuration": (resigned, "not the run that its configuration names"),
    "another format": (lambda m, e: m.update(format_version=2), "this version reads"),
    "another program's": (lambda m, e: m.update(format="backup"), "its format is backup"),
    "no runs": (lambda m, e: m.pop("runs"), "its format"),
    "half a manifest": (lambda m, e: m["runs"][0].pop("files"), "not complete"),
    "a run twice": (lambda m, e: m["runs"].append(m["runs"][0]), "twice"),
    "no manifest": (lambda m, e: e[-1][0].__setattr__("filename", "x"), "no readable manifest"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSALS)
def test_is_refused(archive, tmp_path, what):  # noqa: F811
    change, message = REFUSALS[what]
    rewrite(archive, change)
    refused(archive, tmp_path, message)


def refused(path, tmp_path, message):
    root = tmp_path / "elsewhere"
    with pytest.raises(UserError, match=message) as error:
        import_archive(path, root)
    assert "\n" not in str(error.value)
    assert not root.exists() or not list(root.iterdir())
    assert {p.name for p in tmp_path.iterdir()} <= {"multirun", "runs.zip", "elsewhere"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused(archive, tmp_path):  # noqa: F811
    rewrite(archive, lambda manifest, entries: entries.insert(0, list(entries[0])))
    refused(archive, tmp_path, "twice")


def test_a_bomb_is_refused_before_it_is_unpacked(archive, tmp_path):  # noqa: F811
    def bomb(manifest, entries):
        entry = first(entries, "per_image.csv")
        entry[1] = b"0" * (65 * 2**20)
        entry[0].compress_type = zipfile.ZIP_DEFLATED
        run, _, file = entry[0].filename.partition("/")
        listed = next(r for r in manifest["runs"] if r["name"] == run)["files"][file]
        listed["bytes"] = len(entry[1])

    rewrite(archive, bomb)
    assert archive.stat().st_size < 2**20
    refused(archive, tmp_path, "68,157,440 bytes long")


def test_a_file_longer_than_its_own_header_says_is_cut_off(archive, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "_check", lambda path, source, runs: None)
    rewrite(
        archive, lambda m, e: edit(e, "result.json", b'"status"', b" " * 3_000_000 + b'"status"')
    )
    refused(archive, tmp_path, "not the file that was packed")


@pytest.mark.parametrize("length", [0, 10, 2000, -30])
def test_a_file_that_is_cut_short_is_refused(archive, tmp_path, length):  # noqa: F811
    archive.write_bytes(archive.read_bytes()[:length])
    refused(archive, tmp_path, "no whole ZIP file")


def test_a_flipped_bit_is_found(archive, tmp_path):  # noqa: F811
    data = bytearray(archive.read_bytes())
    data[400] ^= 1
    archive.write_bytes(data)
    with pytest.raises(UserError, match="is not imported"):
        import_archive(archive, tmp_path / "elsewhere")


def test_a_missing_archive_is_named(tmp_path):
    refused(tmp_path / "runs.zip", tmp_path, "does not exist")


def test_a_disk_that_is_too_small_is_seen_before_writing(archive, tmp_path, monkeypatch):  # noqa: F811
    from collections import namedtuple

    usage = namedtuple("usage", "free")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda folder: usage(10))
    refused(archive, tmp_path, "free space or set run_root")


def test_a_move_that_fails_undoes_those_before_it(archive, tmp_path, monkeypatch):  # noqa: F811
    from pathlib import Path

    real, calls = Path.rename, []

    def rename_once(self, target):
        calls.append(self)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename_once)
    refused(archive, tmp_path, "No space left")
