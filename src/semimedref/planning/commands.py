"""``semimedref plan``: what an experiment, or all of them, will cost."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref import config
from semimedref.errors import UserError
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from semimedref.planning.plan import Plan
    from semimedref.sweep import Experiment


def plan_command(args: Sequence[str]) -> int:
    """``semimedref plan [experiment=NAME] [gpu=…] [why=true] [out=FILE.csv]``: count and print."""
    from semimedref.planning.text import csv_text, render

    out = next((a.removeprefix("out=") for a in args if a.startswith("out=")), "")
    if out and not out.endswith(".csv"):
        raise UserError(f"plan: out={out}: expected a file that ends in .csv")
    why = _switch(args)
    overrides = [a for a in args if not a.startswith(("out=", "why="))]
    plan = _plan(overrides)
    print(render(plan, why=why), end="", flush=True)
    if out:
        write_atomic(Path(out), csv_text(plan))
        print(f"\nwritten: {out}")
    return 0


def _plan(overrides: list[str]) -> Plan:
    from semimedref.only import chosen
    from semimedref.planning.plan import plan_experiment, plan_experiments
    from semimedref.sweep import expand, expand_ahead, known_experiments

    if any(a.startswith("experiment=") for a in overrides):
        experiment = expand(overrides)
        return plan_experiment(experiment, chosen(experiment).cells)
    names = known_experiments(config.search_folders(overrides))
    expand_ahead(names, overrides)
    return plan_experiments(_expanded(name, overrides) for name in names)


def _expanded(name: str, overrides: list[str]) -> Experiment:
    """An experiment; the first plan of all counts for minutes, so it says where it is."""
    from semimedref.sweep import expand

    if sys.stderr.isatty():
        print(f"counting {name}", file=sys.stderr, flush=True)
    return expand([f"experiment={name}", *overrides])


def _switch(args: Sequence[str]) -> bool:
    said = next((a.removeprefix("why=") for a in reversed(args) if a.startswith("why=")), "false")
    if said not in ("true", "false"):
        raise UserError(f"plan: why={said}: expected true or false")
    return said == "true"
