"""The archive of finished runs: a ZIP with a manifest that knows the hash of every file.

Equal runs give equal bytes: entries are sorted, without times, owners or comments.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from semimedref import __version__
from semimedref.errors import UserError
from semimedref.results.packing import RESULT, RUN, WEIGHTS, Packed, is_file_of_run
from semimedref.results.renumbering import RULE

FORMAT, FORMAT_VERSION = "semimedref results", 1
MANIFEST = "manifest.json"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a ZIP knows
_LEVEL = 6
# Bytes of one file that is no weights; a test set of 100,000 images has 10 MB.
_LARGEST = 64 * 2**20
_CHUNK = 2**20
_RUN_NAME = re.compile(r"(?!\.)[^\x00-\x1f/\\:]+-[0-9a-f]{12}")
_ENCRYPTED = 0x1


@dataclass(frozen=True)
class File:
    """What the manifest says about a file."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Entry:
    """What the manifest says about a run."""

    name: str
    signature: str
    files: dict[str, File]


@dataclass(frozen=True)
class Archive:
    """An archive whose table of contents has been checked; file contents are checked when read."""

    path: Path
    version: str
    runs: list[Entry]
    zip: zipfile.ZipFile

    def unpack(self, run: Entry, folder: Path) -> None:
        """Write a run's files into a new folder; their hashes must be those of the manifest."""
        for name, expected in run.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with self.zip.open(f"{run.name}/{name}") as source, target.open("xb") as out:
                found = _copy(source, out, limit=expected.bytes)
            if found != expected:
                raise _refused(self.path, f"{run.name}/{name} is not the file that was packed")


def write_archive(path: Path, runs: Iterable[Packed]) -> list[Packed]:
    """Pack runs into an archive, whole or not at all; returns them."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(partial, "w") as out:
            written = [(run, _write_run(out, run)) for run in runs]
            manifest = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "semimedref": __version__,
                "renumbered": RULE,
                "runs": [entry for _, entry in written],
            }
            _write(out, MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
        partial.replace(path)
    except OSError as error:
        raise UserError(
            f"could not write {path} ({error.strerror}): free space or set out=FILE.zip"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return [run for run, _ in written]


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive after a look at its table of contents: nothing is unpacked yet."""
    try:
        with zipfile.ZipFile(path) as source:
            content = _manifest(path, source)
            runs = [_entry(path, run) for run in content["runs"]]
            _check(path, source, runs)
            yield Archive(path, str(content.get("semimedref")), runs, source)
    except FileNotFoundError as error:
        raise UserError(f"archive={path} does not exist") from error
    except (zipfile.BadZipFile, EOFError, zipfile.LargeZipFile) as error:
        raise _refused(path, f"it is no whole ZIP file ({error})") from error


def _write_run(out: zipfile.ZipFile, run: Packed) -> dict[str, object]:
    files = {}
    for name, content in sorted(run.files.items()):
        _write(out, f"{run.name}/{name}", content)
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    if run.weights is not None:
        info = _info(f"{run.name}/{WEIGHTS}", zipfile.ZIP_STORED)
        with run.weights.open("rb") as source, out.open(info, "w", force_zip64=True) as target:
            copied = _copy(source, target, limit=None)
        files[WEIGHTS] = {"sha256": copied.sha256, "bytes": copied.bytes}
    return {"name": run.name, "signature": run.signature, "files": files}


def _write(out: zipfile.ZipFile, name: str, content: bytes) -> None:
    out.writestr(_info(name, zipfile.ZIP_DEFLATED), content, compresslevel=_LEVEL)


def _info(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = method
    info.create_system = 3  # Unix, whatever this machine is
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def _copy(source: IO[bytes], target: IO[bytes], *, limit: int | None) -> File:
    """Copy and hash, but never more than was announced."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        size += len(chunk)
        if limit is not None and size > limit:
            break
        digest.update(chunk)
        target.write(chunk)
    return File(digest.hexdigest(), size)


def _manifest(path: Path, source: zipfile.ZipFile) -> dict[str, list[dict[str, object]]]:
    try:
        with source.open(MANIFEST) as file:
            content = json.loads(file.read(_LARGEST))  # what is longer is no JSON any more
        found = content["format"], content["format_version"]
    except (KeyError, TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _refused(path, f"it has no readable {MANIFEST}") from None
    if found != (FORMAT, FORMAT_VERSION) or not isinstance(content.get("runs"), list):
        raise _refused(
            path,
            f"its format is {found[0]} {found[1]}, this version reads {FORMAT} {FORMAT_VERSION}",
        )
    return dict(content)


def _entry(path: Path, run: dict[str, object]) -> Entry:
    """A run of the manifest, with a name that can only be a folder below the run root."""
    try:
        name, signature, listed = str(run["name"]), str(run["signature"]), run["files"]
        if not isinstance(listed, dict):
            raise TypeError(listed)
        files = {str(k): File(str(v["sha256"]), int(v["bytes"])) for k, v in listed.items()}
    except (KeyError, TypeError, ValueError):
        raise _refused(path, f"its {MANIFEST} is not complete") from None
    if not _RUN_NAME.fullmatch(name) or not name.endswith(f"-{signature}"):
        raise _refused(path, f"{name!r} is no name of a run")
    for file in files:
        if not is_file_of_run(file):
            raise _refused(path, f"{file!r} is no file of a run")
    if not {RUN, RESULT} <= files.keys():
        raise _refused(path, f"{name} lacks {RUN} or {RESULT}")
    return Entry(name, signature, files)


def _check(path: Path, source: zipfile.ZipFile, runs: list[Entry]) -> None:
    """The ZIP holds what the manifest lists, plain files of possible sizes, and nothing else."""
    infos = source.infolist()
    listed = {f"{run.name}/{name}": file for run in runs for name, file in run.files.items()}
    names = [info.filename for info in infos if info.filename != MANIFEST]
    if len({run.name for run in runs}) != len(runs) or len(set(names)) != len(names):
        raise _refused(path, "it lists a file twice")
    if len(infos) != len(names) + 1 or set(names) != listed.keys():
        odd = sorted(set(names) ^ listed.keys())
        raise _refused(path, f"its files are not those of its {MANIFEST} ({', '.join(odd[:3])})")
    for info in infos:
        mode = info.external_attr >> 16
        if info.is_dir() or (mode and not stat.S_ISREG(mode)) or info.flag_bits & _ENCRYPTED:
            raise _refused(path, f"{info.filename} is no plain file (a link, folder or encrypted)")
        weights = info.filename.endswith(f"/{WEIGHTS}")
        packed = info.compress_size if weights else _LARGEST  # weights are stored as they are
        announced = listed[info.filename].bytes if info.filename in listed else info.file_size
        if info.file_size != announced or announced > packed:
            raise _refused(path, f"{info.filename} says that it is {announced:,} bytes long")
    if sum(info.compress_size for info in infos) > path.stat().st_size:
        raise _refused(path, "its files overlap")


def check_space(archive: Archive, folder: Path) -> None:
    """Refuse before the disk is full."""
    needed = sum(file.bytes for run in archive.runs for file in run.files.values())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{archive.path} needs {needed / 2**20:,.0f} MiB, {folder} has {free / 2**20:,.0f}: "
            "free space or set run_root=FOLDER"
        )


def _refused(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} is not imported: {why}; expected a file of `semimedref export`, nothing was "
        "written"
    )
