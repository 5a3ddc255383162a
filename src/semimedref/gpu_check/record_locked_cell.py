"""Write locked_cell.json: the losses of the locked cell on one CPU thread.

    OMP_NUM_THREADS=1 python -m semimedref.gpu_check.record_locked_cell

Only after a change that is meant to move losses; the locked check and its test compare with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from semimedref.config import compose, resolved
from semimedref.files import write_atomic
from semimedref.gpu_check.accelerator import accelerator
from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.checks import locked


def main() -> None:
    """Train the cell and write its losses."""
    settings = resolved(compose(["gpu_check=rehearsal"]))["gpu_check"]
    with TemporaryDirectory() as folder:
        setup = Setup(settings, accelerator("cpu"), Path(folder))
        golden = {
            "what": "losses of every step of gpu_check.locked on one CPU thread, in FP32",
            "signature": locked.signature_of(setup),
            "torch": torch.__version__,
            "losses": locked.losses(setup),
        }
    write_atomic(locked.GOLDEN, json.dumps(golden, indent=1) + "\n")
    print(locked.GOLDEN)


if __name__ == "__main__":
    main()
