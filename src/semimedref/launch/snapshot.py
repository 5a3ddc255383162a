"""A copy of the code at the moment of submission: what waits in a queue must not change."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from semimedref import config
from semimedref.environment import COMMIT_FILE, git_commit
from semimedref.errors import UserError
from semimedref.files import whole_folder

FOLDER = ".code"  # in the run root, a folder a version
_ENDINGS = (".py", ".yaml", ".yml", ".json", ".csv", ".css", ".js", ".txt", ".tsv")
_LARGEST = 50e6  # bytes of a package that is copied; more is no code


@dataclass(frozen=True)
class Snapshot:
    """Where a copy lies.

    Attributes:
        source: the folder for ``PYTHONPATH``.
        config_dirs: copies of the further configuration folders, in order.
    """

    source: Path
    config_dirs: tuple[Path, ...] = ()


def take_snapshot(
    run_root: Path, *, config_dirs: Sequence[Path] = (), packages: Sequence[str] = ()
) -> Snapshot:
    """Copy package, configuration and the user's own parts; equal code is copied once.

    Args:
        run_root: the folder of all runs; the copies lie in it, so that every node sees them.
        config_dirs: the user's configuration folders (``--config-dir``).
        packages: the user's own packages (``trusted_packages``).
    """
    plan = _plan(config_dirs, packages)
    folder = run_root.absolute() / FOLDER / _digest(plan)
    if not folder.exists():
        _copy(plan, folder)
    shipped = (folder / f"config_dir_{number}" for number in range(len(config_dirs)))
    return Snapshot(folder / "src", tuple(shipped))


def _plan(config_dirs: Sequence[Path], packages: Sequence[str]) -> dict[str, Path]:
    """Which file goes where in the copy."""
    own = Path(__file__).parents[1]
    trees = {"src/semimedref": own, "src/hydra_plugins": own.parent / "hydra_plugins"}
    if config.config_dir() != own / "conf":
        trees["conf"] = config.config_dir()
    for name in packages:
        trees[f"src/{name}"] = _package(name)
    for number, place in enumerate(config_dirs):
        trees[f"config_dir_{number}"] = place
    found: dict[str, Path] = {}
    for target, tree in trees.items():
        only = "semimedref" if target == "src/hydra_plugins" else ""
        found |= {f"{target}/{f.relative_to(tree)}": f for f in _files(tree, only)}
        if tree.is_file():
            found[f"{target}.py"] = tree
    return found


def _files(tree: Path, only: str) -> Iterator[Path]:
    for file in sorted(tree.rglob("*")) if tree.is_dir() else ():
        inside = file.relative_to(tree).parts
        if file.suffix in _ENDINGS and file.is_file() and inside[0].startswith(only):
            yield file


def _package(name: str) -> Path:
    """The folder, or the one file, of an importable package."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise UserError(f"trusted_packages=[{name}]: no such package can be imported here")
    origin = Path(spec.origin)
    place = origin.parent if origin.name == "__init__.py" else origin
    size = sum(f.stat().st_size for f in _files(place, ""))
    if size > _LARGEST:
        raise UserError(
            f"{place} has {size / 1e6:.0f} MB of code and tables: too large to be copied for a "
            f"queue (expected under {_LARGEST / 1e6:.0f} MB); keep data out of the package"
        )
    return place


def _digest(plan: dict[str, Path]) -> str:
    digest = hashlib.sha256((git_commit() or "").encode())
    for target, file in plan.items():
        digest.update(target.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _copy(plan: dict[str, Path], folder: Path) -> None:
    """Copy beside the place and move in one step; a copy that another process made is as good."""
    try:
        with whole_folder(folder) as partial:
            for target, file in plan.items():
                (partial / target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, partial / target)
            commit = partial / "src" / "semimedref" / COMMIT_FILE
            commit.write_text((git_commit() or "") + "\n")
    except OSError as error:
        raise UserError(
            f"could not copy the code to {folder} ({error.strerror}): set run_root=FOLDER to a "
            "writable folder that all nodes see"
        ) from error
