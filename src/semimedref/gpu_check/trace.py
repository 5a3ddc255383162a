"""A short training in a process of its own: its losses to the last bit, and a hash of its state.

Started as: python -m semimedref.gpu_check.trace TASK.json
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ALERT = re.compile(r"([\w.]+) does not have a deterministic implementation|(cu\w+) .*not determin")


def traced(overrides: Sequence[str], *, stop: int, folder: Path, out: Path) -> dict[str, Any]:
    """Train to step ``stop`` in ``folder``, from what an earlier process left there.

    Returns:
        losses (hexadecimal, by step), tensors (hashes by name), alerts (operators that torch
        refuses), cublas_workspace.
    """
    task = {"overrides": list(overrides), "stop": stop, "folder": str(folder), "out": str(out)}
    file = out.with_suffix(".task.json")
    file.write_text(json.dumps(task))
    done = subprocess.run(
        [sys.executable, "-m", "semimedref.gpu_check.trace", str(file)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"a training process ended early: {tail[0]}")
    return json.loads(out.read_text())


def main(task: dict[str, Any]) -> None:
    """Train, write the trace and a checkpoint to go on from."""
    result: dict[str, Any] = {"losses": {}, "tensors": {}, "alerts": []}
    try:
        result |= _train(task)
    except RuntimeError as error:
        if not _ALERT.search(str(error)):
            raise
        result["alerts"] = _alerts(task)
    result["cublas_workspace"] = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    Path(task["out"]).write_text(json.dumps(result))


def _train(task: dict[str, Any], *, warn_only: bool = False) -> dict[str, Any]:
    import torch

    from semimedref.config import compose
    from semimedref.gpu_check.cell import fingerprints, train
    from semimedref.run import Parts

    parts = Parts.build(compose(task["overrides"]))
    if warn_only:
        torch.use_deterministic_algorithms(True, warn_only=True)
    trainer = parts.trainer(Path(task["folder"]), lambda: None)
    trainer._resume()
    start = trainer.step
    curve = train(trainer, task["stop"] - start)
    trainer._save()
    losses = {start + i: {k: v.hex() for k, v in row.items()} for i, row in enumerate(curve)}
    return {"losses": losses, "tensors": fingerprints(trainer)}


def _alerts(task: dict[str, Any]) -> list[str]:
    """All operators that torch would refuse, not only the first."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _train(task, warn_only=True)
    return operators([str(warning.message) for warning in caught])


def operators(messages: Sequence[str]) -> list[str]:
    """The operators that some of torch's messages name."""
    found = [match for text in messages if (match := _ALERT.search(text))]
    return sorted({match.group(1) or match.group(2) for match in found})


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
