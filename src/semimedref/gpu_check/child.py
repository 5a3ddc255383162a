"""One check in a process of its own: a crash, a full memory or a broken GPU context ends only it.

Started as: python -m semimedref.gpu_check.child CHECK TASK.json
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.checks import CHECKS
from semimedref.gpu_check.finding import FAILED, Finding

_TRACE = 12  # lines of a traceback that go into the report


def findings(name: str, setup: Setup) -> Iterator[Finding]:
    """What a check finds; an exception is a failed finding, and the last."""
    module = import_module(f"semimedref.gpu_check.checks.{CHECKS[name][0]}")
    try:
        yield from module.check(setup)
    except Exception as error:
        yield broken(error)


def broken(error: Exception) -> Finding:
    """A check that could not be carried out."""
    import torch

    full = isinstance(error, torch.OutOfMemoryError)
    lines = "".join(traceback.format_exception(error)).splitlines()[-_TRACE:]
    return Finding(
        "",
        FAILED,
        f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        "no error",
        "is another program using the GPU? `nvidia-smi` lists them"
        if full
        else "send us the report",
        {"traceback": lines},
    )


def main(name: str, task_file: str) -> None:
    """Write findings one by one, so that those before a crash are kept."""
    from semimedref.gpu_check.accelerator import accelerator

    task = json.loads(Path(task_file).read_text())
    settings = task["settings"]
    setup = Setup(settings, accelerator(settings["device"]), Path(task["folder"]))
    with Path(task["out"]).open("a") as file:
        for finding in findings(name, setup):
            file.write(json.dumps(finding.plain()) + "\n")
            file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
