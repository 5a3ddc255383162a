"""The commands that move finished runs between machines: export and import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from semimedref.errors import UserError
from semimedref.options import RUN_ROOT, parse, run_folder
from semimedref.results import store
from semimedref.results.archive import write_archive
from semimedref.results.packing import pack
from semimedref.results.unpacking import import_archive


def export_command(args: Sequence[str]) -> int:
    """``semimedref export [experiment=NAME | run=RUN,RUN] out=FILE.zip [weights=true]``."""
    if any(arg.startswith("experiment=") for arg in args):
        own = [arg for arg in args if arg.partition("=")[0] in ("out", "weights")]
        folders, unfinished = _of_experiment([arg for arg in args if arg not in own])
        args = own
    else:
        folders, unfinished = [], 0
    options = parse(
        args,
        command="export",
        required=("out",),
        optional={"run": "", "weights": "false", "run_root": RUN_ROOT},
    )
    out = Path(options["out"])
    if out.suffix != ".zip":
        raise UserError(f"out={out}: expected a name that ends in .zip")
    if options["weights"] not in ("true", "false"):
        raise UserError(f"weights={options['weights']}: expected true or false")
    if options["run"]:
        folders = [run_folder(name, options["run_root"]) for name in options["run"].split(",")]
    folders = folders or _finished(Path(options["run_root"]))
    weights = options["weights"] == "true"
    runs = write_archive(out, (pack(folder, weights=weights) for folder in _distinct(folders)))
    for note, times in Counter(note for run in runs for note in run.notes).items():
        print(f"note: {note}" + (f" ({times} runs)" if times > 1 else ""))
    left = f"; {unfinished} cells are not finished" if unfinished else ""
    print(f"{len(runs)} runs, {out.stat().st_size / 1024:,.0f} KiB, in {out}{left}")
    return 0


def import_command(args: Sequence[str]) -> int:
    """``semimedref import archive=FILE.zip [run_root=FOLDER]``."""
    options = parse(args, command="import", required=("archive",), optional={"run_root": RUN_ROOT})
    done = import_archive(Path(options["archive"]), Path(options["run_root"]))
    parts = [f"{len(done.new)} runs imported"]
    parts += [f"{len(done.completed)} completed"] if done.completed else []
    parts += [f"{len(done.known)} were there already"] if done.known else []
    print(f"{', '.join(parts)}, in {options['run_root']}")
    return 0


def _of_experiment(overrides: list[str]) -> tuple[list[Path], int]:
    """The folders of an experiment's finished cells, and how many cells are not finished."""
    from semimedref.only import chosen
    from semimedref.sweep import expand

    experiment = chosen(expand(overrides))
    folders = _distinct([Path(experiment.run_root) / cell.name for cell in experiment.cells])
    done = [folder for folder in folders if store.state(folder) == "done"]
    if not done:
        raise UserError(
            f"no cell of {experiment.name} is finished in {experiment.run_root}: "
            f"`semimedref train -m {' '.join(overrides)}` trains them"
        )
    return done, len(folders) - len(done)


def _finished(run_root: Path) -> list[Path]:
    folders = sorted(path.parent for path in run_root.glob("*/result.json"))
    done = [folder for folder in folders if store.state(folder) == "done"]
    if not done:
        raise UserError(f"no run is finished in {run_root}: set run_root=FOLDER")
    return done


def _distinct(folders: Sequence[Path]) -> list[Path]:
    """Each folder once, by name: cells share runs, and equal runs give equal archives."""
    return sorted({folder.resolve(): folder for folder in folders}.values(), key=lambda f: f.name)
