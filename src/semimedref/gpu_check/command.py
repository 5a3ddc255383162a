"""``semimedref gpu-check``: look for a GPU, run each check in its process, print and report."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from semimedref import options
from semimedref.errors import UserError
from semimedref.gpu_check.checks import CHECKS
from semimedref.gpu_check.finding import FAILED
from semimedref.gpu_check.processes import Outcome, run_check

ALWAYS = "machine"  # a report without the name of its GPU says little
NO_GPU = 3  # exit code: nothing was checked, which is neither a pass nor a failure
_WIDTH = 78  # of a line that is overwritten: it must not wrap


def gpu_check_command(args: list[str]) -> int:
    """0: all is well; 1: a check failed; 2: bad input; 3: there is no GPU."""
    given = options.parse(
        args,
        command="gpu-check",
        required=(),
        optional={"only": "", "out": "", "gpu_check": "default"},
        overrides=True,
    )
    names = chosen(given["only"])
    settings = _settings(given, options.overrides(args))
    missing = no_gpu(settings["device"])
    if missing:
        print(f"gpu-check: {missing}; nothing was checked")
        return NO_GPU
    return _run_all(names, settings)


def chosen(only: str) -> list[str]:
    """The checks to run, in their order; the machine is always described."""
    wanted = [name.strip() for name in only.strip("[]").split(",") if name.strip()]
    unknown = [name for name in wanted if name not in CHECKS]
    if unknown:
        raise UserError(f"only={unknown[0]}: no such check; expected some of {','.join(CHECKS)}")
    return [name for name in CHECKS if not wanted or name in (ALWAYS, *wanted)]


def no_gpu(device: str) -> str | None:
    """Why there is no such device here, or None."""
    import torch

    if torch.device(device).type != "cuda" or torch.cuda.is_available():
        return None
    build = f"torch {torch.__version__}"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"no GPU: {build} is built without CUDA"
    return f"no GPU: {build} sees no CUDA device (`nvidia-smi` shows what the driver sees)"


def _settings(given: dict[str, str], overrides: list[str]) -> dict[str, Any]:
    from semimedref.config import compose, resolved
    from semimedref.expansion import hydra_value

    own = [f"gpu_check={given['gpu_check']}", *overrides]
    own += [f"gpu_check.out={hydra_value(given['out'])}"] if given["out"] else []
    return resolved(compose(own))["gpu_check"]


def _run_all(names: list[str], settings: dict[str, Any]) -> int:
    from semimedref.gpu_check import report

    minutes = sum(settings["minutes"][name] for name in names)
    print(f"gpu-check on {settings['device']}: {len(names)} checks, at most {minutes:g} minutes")
    outcomes: list[Outcome] = []
    out = Path(settings["out"])
    part = [] if names == list(CHECKS) else names[1:] or names
    with TemporaryDirectory(prefix="semimedref-gpu-check-") as folder:
        for number, name in enumerate(names, start=1):
            place = f"{number:2d}/{len(names)} {name:11s}"
            _announce(f"{place} … at most {settings['minutes'][name]:g} minutes, {CHECKS[name][1]}")
            outcomes.append(run_check(name, settings, folder=Path(folder)))
            _announce("")
            print("\n".join(lines(place, outcomes[-1])), flush=True)
            file = report.write(out, outcomes, settings, part=part)
    print(f"{report.state(outcomes)}: {file}\n{report.SEND}")
    return 1 if report.state(outcomes) == FAILED else 0


def lines(place: str, outcome: Outcome) -> list[str]:
    """One line a check: all is well, or each thing that failed."""
    took = time.strftime("%M:%S", time.gmtime(outcome.seconds))
    failed = [f for f in outcome.findings if f.state == FAILED]
    if failed:
        return [f"{place} FAILED  {took}  {finding.line()}" for finding in failed]
    seen = [f for f in outcome.findings if f.state == outcome.state]
    found = " | ".join(finding.line() for finding in seen)
    return [f"{place} {outcome.state:7s} {took}  {found}"]


def _announce(text: str) -> None:
    """What is under way, on a terminal; the result overwrites it."""
    if sys.stdout.isatty():
        print(f"\033[2K{text[:_WIDTH]}", end="\r", flush=True)
