"""Runs of an archive become run folders: all of them or none, and never over another result."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from semimedref import __version__
from semimedref.errors import UserError
from semimedref.folder import IMPORTED
from semimedref.results import store
from semimedref.results.archive import Archive, Entry, check_space, open_archive
from semimedref.results.packing import CORE, WEIGHTS, pack

# What a launcher leaves where nothing has been trained yet.
_BEFORE_A_RUN = {".hydra", ".lock", ".owner"}


@dataclass
class Imported:
    """What an import did, by names of runs."""

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)  # were there already, with equal content
    completed: list[str] = field(default_factory=list)  # got weights or evaluations they lacked


def import_archive(path: Path, run_root: Path) -> Imported:
    """Check everything, then move new runs into place; an error leaves the run root as it was."""
    with open_archive(path) as archive:
        try:
            run_root.mkdir(parents=True, exist_ok=True)
            check_space(archive, run_root)
            with tempfile.TemporaryDirectory(prefix=".import-", dir=run_root) as scratch:
                return _import(archive, Path(scratch), run_root)
        except OSError as error:
            raise UserError(
                f"cannot write in {run_root} ({error.strerror}): set run_root=FOLDER"
            ) from error


def _import(archive: Archive, scratch: Path, run_root: Path) -> Imported:
    done, moves, additions = Imported(), [], []
    mark = _mark(archive)
    for run in archive.runs:
        fresh, target = scratch / run.name, run_root / run.name
        archive.unpack(run, fresh)
        _check_run(archive.path, run, fresh)
        if _is_free(run, target):
            (fresh / IMPORTED).write_text(mark)
            moves.append((fresh, target))
            done.new.append(run.name)
            continue
        missing = _missing(run, fresh, target)
        additions += [(fresh / name, target / name) for name in missing]
        (done.completed if missing else done.known).append(run.name)
    for old in (target for _, target in moves if target.exists()):
        old.rename(scratch / f"{old.name}.before")  # goes away with the scratch folder
    _move([*moves, *additions])
    return done


def _check_run(archive: Path, run: Entry, fresh: Path) -> None:
    """The files say the same name, the configuration has the signature, the result is whole."""
    content, result = store.load_run(fresh), store.load_result(fresh)
    signed = json.dumps(content.get("signed"), sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha1(signed.encode()).hexdigest()[:12]
    said = {content.get("signature"), result.get("signature"), expected}
    names = {content.get("name"), result.get("name")}
    if said != {run.signature} or names != {run.name} or result.get("status") != "done":
        raise UserError(
            f"{archive} is not imported: {run.name} is not the run that its configuration names; "
            "expected a file of `semimedref export`, nothing was written"
        )
    if "per_image.csv" in run.files:
        store.load_per_image(fresh)
    store.load_metrics(fresh)


def _is_free(run: Entry, target: Path) -> bool:
    """Whether nothing has been trained at the place of a run."""
    if not target.exists():
        return True
    state = store.state(target)
    if state == "done":
        return False
    if state == "missing" and {path.name for path in target.iterdir()} <= _BEFORE_A_RUN:
        return True
    raise UserError(
        f"{run.name} is {'unfinished' if state == 'missing' else state} in {target.parent}: "
        "nothing was imported; move that folder away, or set run_root=FOLDER to another one"
    )


def _missing(run: Entry, fresh: Path, target: Path) -> list[str]:
    """Files that a finished run lacks; one that differs in what it has is another result."""
    ours = {
        name: hashlib.sha256(content).hexdigest() for name, content in pack(target).files.items()
    }
    theirs = {name: file.sha256 for name, file in run.files.items() if name != WEIGHTS}
    differing = [n for n in theirs if (n in ours or n in CORE) and ours.get(n) != theirs[n]]
    if differing:
        raise UserError(
            f"{run.name} is done in {target.parent} with another {differing[0]}: nothing was "
            "imported; move that folder away, or set run_root=FOLDER to another one"
        )
    return [name for name in run.files if not (target / name).exists()]


def _move(moves: list[tuple[Path, Path]]) -> None:
    """Rename one after the other; if one fails, undo those before it."""
    moved: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            target.parent.mkdir(exist_ok=True)
            source.rename(target)
            moved.append((source, target))
    except OSError:
        for source, target in reversed(moved):
            target.rename(source)
        raise


def _mark(archive: Archive) -> str:
    """``imported.json``: where a run came from."""
    with archive.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    note = {
        "archive": archive.path.name,
        "archive_sha256": digest,
        "exported_with": archive.version,
        "imported_with": __version__,
    }
    return json.dumps(note, indent=1) + "\n"
