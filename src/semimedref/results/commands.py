"""The commands that read results: status, table, report, diff. Each returns an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.options import RUN_ROOT, run_folder
from semimedref.results import configdiff, store

if TYPE_CHECKING:
    from semimedref.sweep import Experiment


def status_command(args: Sequence[str]) -> int:
    """``semimedref status experiment=NAME``: the state of every cell; of all, without a name."""
    from semimedref.only import chosen
    from semimedref.results import status

    if any(arg.startswith("experiment=") for arg in args):
        experiment = chosen(_expand("status", args))
        if experiment.search is not None:
            from semimedref.search import text

            print(text.status(experiment.search, style=_style()), end="")
            return 0
        print(status.render_status(experiment), end="")
    else:
        status.print_overview(list(args))
    return 0


def table_command(args: Sequence[str]) -> int:
    """``semimedref table experiment=NAME [out=FOLDER]``: print it; write Markdown, CSV, LaTeX.

    A part of it (``only=``) is written where ``out=`` says, never in the place of the whole.
    """
    from semimedref.only import chosen
    from semimedref.results import latex, render
    from semimedref.results.comparison import compare_rows
    from semimedref.results.table import build_table

    out = next((arg.removeprefix("out=") for arg in args if arg.startswith("out=")), "")
    whole = _expand("table", [arg for arg in args if not arg.startswith("out=")])
    experiment = chosen(whole)
    if experiment.search is not None:
        from semimedref.search.files import write_table

        return write_table(experiment.search, out, style=_style())
    table = build_table(experiment)
    comparisons = compare_rows(table)
    folder = Path(out) if out else table.run_root / "tables"
    files = {
        folder / f"{table.name}.md": render.markdown(table, comparisons),
        folder / f"{table.name}.csv": render.csv_text(table),
        folder / f"{table.name}.tex": latex.latex(table),
    }
    print(render.terminal(table, comparisons, style=_style()), end="", flush=True)
    if experiment is not whole:
        shown = f"{len(experiment.cells)} of {len(whole.cells)} cells"
        print(f"only=: {shown}; p-values are corrected for the tests that are shown")
        if not out:
            print("not written: add out=FOLDER")
            return 0
    for path, text in files.items():  # after printing: a folder of others may not be written
        write_atomic(path, text)
    print(f"\nwritten: {', '.join(str(path) for path in files)}")
    return 0


def report_command(args: Sequence[str]) -> int:
    """``semimedref report [experiment=NAME] [runs=FOLDER,FOLDER]``: write the page, print its path.

    Without an experiment: the page of each that has a finished run, and one page over them all.
    ``runs`` names finished runs outside the experiment that may complete the headroom; by default
    all finished runs of the run root may.
    """
    from semimedref.results.overview import write_overview
    from semimedref.results.report import write_report

    extra = [arg.removeprefix("runs=") for arg in args if arg.startswith("runs=")]
    overrides = [arg for arg in args if not arg.startswith("runs=")]
    folders = [Path(name) for names in extra for name in names.split(",") if name]
    if any(arg.startswith("experiment=") for arg in overrides):
        experiment = _expand("report", overrides)
        if experiment.search is not None:
            from semimedref.search.report import write_report as write_search

            print(write_search(experiment.search))
            return 0
        root = Path(experiment.run_root)
    else:
        given = [a.removeprefix("run_root=") for a in overrides if a.startswith("run_root=")]
        experiment, root = None, Path(given[-1] if given else RUN_ROOT)
    if not extra:
        folders = sorted(file.parent for file in root.glob("*/result.json"))
    if experiment is None:
        print(write_overview(overrides, extra=folders, run_root=root))
    else:
        print(write_report(experiment, overrides=overrides, extra=folders))
    return 0


def diff_command(args: Sequence[str]) -> int:
    """Compare two runs, two rows of an experiment, or two options of a configuration.

    ``semimedref diff RUN_A RUN_B``, ``semimedref diff experiment=NAME "Row A" "Row B"`` or
    ``semimedref diff preset=paper preset=release``.
    """
    root = next((a.removeprefix("run_root=") for a in args if a.startswith("run_root=")), RUN_ROOT)
    of_experiment = any(a.startswith("experiment=") for a in args)
    if not of_experiment:
        args = [a for a in args if not a.startswith("run_root=")]
    overrides = [arg for arg in args if _is_override(arg)]
    names = [arg for arg in args if not _is_override(arg)]
    options = [arg for arg in overrides if not arg.startswith("hydra.")]
    if not of_experiment and not names and len(options) == 2:
        shared = [arg for arg in overrides if arg not in options]
        names = options
        found = configdiff.option_differences(*options, shared=shared)
    elif len(names) != 2:
        raise UserError(
            f"found {len(names)} things to compare, expected two run folders, two rows or two "
            'options: `semimedref diff RUN_A RUN_B`, `semimedref diff experiment=NAME "Row A" '
            '"Row B"` or `semimedref diff preset=paper preset=release`'
        )
    elif overrides:
        a, b = configdiff.matching_cells(_expand("diff", overrides), *names)
        read = [{**c.config, "evaluation": c.evaluation} for c in (a, b)]
        found = configdiff.differences(*read)
    else:
        folders = [run_folder(name, root) for name in names]
        found = configdiff.differences(*(store.load_config(folder) for folder in folders))
    print(configdiff.render(found, *(Path(name).name or name for name in names)), end="")
    return 0


def _style() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _is_override(arg: str) -> bool:
    """Tell ``group=option`` from a folder or a row label, either of which may contain ``=``."""
    key, sign, _ = arg.partition("=")
    return bool(sign) and not Path(arg).exists() and all(c.isalnum() or c in "+~._/@" for c in key)


def _expand(command: str, overrides: Sequence[str]) -> Experiment:
    if not any(arg.startswith("experiment=") for arg in overrides):
        raise UserError(
            f"found no experiment, expected one: `semimedref {command} experiment=quickstart`"
        )
    from semimedref.only import expand_whole
    from semimedref.sweep import expand

    if command == "report":
        return expand_whole(command, list(overrides))
    return expand(list(overrides))
