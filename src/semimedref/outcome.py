"""What ``result.json`` says beside the scores: the code, data, machine and time that made them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from semimedref import __version__, config
from semimedref.environment import environment, git_commit, peak_memory_bytes
from semimedref.metrics import DEFINITION

if TYPE_CHECKING:
    from semimedref.folder import RunFolder
    from semimedref.run import Parts
    from semimedref.trainer import Trainer


def describe(
    parts: Parts, plain: dict[str, Any], folder: RunFolder, trainer: Trainer, best: dict[str, Any]
) -> dict[str, Any]:
    """What produced the result of a run that has ended."""
    parameters = [p for network in parts.method.networks() for p in network.parameters()]
    return {
        "status": "done",
        "signature": config.signature(plain),
        "name": folder.name,
        "config": plain,
        "experiment": plain["experiment_name"],
        "row": plain["row"],
        "version": __version__,
        "metric_definition": DEFINITION,
        "git_commit": git_commit(),
        "data": parts.dataset.facts(),
        "environment": environment(),
        "precision": {"training": trainer.precision} | parts.hardware.precision_flags(),
        "device": str(parts.hardware.device),
        "wall_seconds": round(trainer.elapsed, 2),
        "step_seconds": folder.step_seconds(after=trainer.stages.start),
        "peak_memory_bytes": peak_memory_bytes(),
        "parameters": {
            "total": sum(p.numel() for p in parameters),
            "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        },
        "epochs": trainer.step // trainer.steps_per_epoch,
        "steps": trainer.step,
        "best": best,
        "selected_on": parts.method.selects_on,
        "finished": time.time(),
    }
