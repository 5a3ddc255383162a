"""``semimedref analyze``: what a trained run does with words, in numbers and a figure."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from semimedref.errors import UserError
from semimedref.options import RUN_ROOT, overrides, parse, run_folder

ANALYSES = ("interventions", "swap", "attention", "alignment", "mixing")
_SPLITS = ("valid", "test", "train")


def analyze_command(args: list[str]) -> int:
    """Run one analysis; its files go to the run's folder ``analysis/`` or to ``out=``."""
    if not args or args[0] not in ANALYSES:
        found = f"'{args[0]}'" if args else "nothing"
        raise UserError(
            f"analyze: {found} was given; expected one of {', '.join(ANALYSES)}, then run=RUN"
        )
    what = args[0]
    options = parse(
        args[1:],
        command="analyze",
        required=("run",),
        optional={"split": "valid", "weights": "student", "out": "", "overlays": "",
                  "device": "auto", "run_root": RUN_ROOT},
        overrides=True,
    )  # fmt: skip
    if options["split"] not in _SPLITS:
        raise UserError(f"split={options['split']} is unknown: expected {', '.join(_SPLITS)}")
    names = options["run"].split(",")
    if len(names) > 1 and what != "alignment":
        raise UserError(f"analyze {what} takes one run; several only in `analyze alignment`")
    folders = [run_folder(name, options["run_root"]) for name in names]
    _analyze(what, folders, options, overrides(args[1:]))
    return 0


def _analyze(what: str, folders: list[Path], options: dict[str, str], changed: list[str]) -> None:
    from semimedref.analysis.subject import Subject

    changed = [f"hardware.device={options['device']}", *changed]
    if options["overlays"]:
        changed.append(f"overlays={options['overlays']}")
    split = options["split"]
    name = what if split == "valid" else f"{what}-{split}"
    module = import_module(f"semimedref.analysis.{what}")
    subjects = [
        Subject.open(folder, split=split, weights=options["weights"], overrides=changed)
        for folder in folders
    ]
    if len(subjects) == 1:
        finding = module.analyze(subjects[0])
        default = folders[0] / "analysis"
    else:
        measured = [module.measure(subject) for subject in subjects]
        for folder, one in zip(folders, measured, strict=True):
            module.compare([one]).write(folder / "analysis", name)
        finding = module.compare(measured)
        default = Path(options["run_root"]) / "analysis"
    paths = finding.write(Path(options["out"]) if options["out"] else default, name)
    print(finding.text())
    print("\nwritten: " + ", ".join(_by_name(paths)))


def _by_name(paths: list[Path]) -> list[str]:
    """``FOLDER/NAME.{svg,pdf}``: files of one name together."""
    endings: dict[Path, list[str]] = {}
    for path in paths:
        endings.setdefault(path.with_suffix(""), []).append(path.suffix[1:])
    return [
        f"{name}.{{{','.join(found)}}}" if len(found) > 1 else f"{name}.{found[0]}"
        for name, found in endings.items()
    ]
