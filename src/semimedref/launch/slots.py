"""Where cells can run on this machine: a place a GPU, or a place for some cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from semimedref.cores import cores, number_in
from semimedref.errors import UserError


@dataclass(frozen=True)
class Slot:
    """A place for one cell at a time, with its share of the machine."""

    label: str
    environment: dict[str, str]


def slots(
    *, gpus: Sequence[str | int] | None, cells_per_gpu: int, threads: int | None
) -> list[Slot]:
    """All places of this machine.

    Args:
        gpus: which GPUs, as ``CUDA_VISIBLE_DEVICES`` names them; None: all that are visible; an
            empty list: none, only cores.
        cells_per_gpu: cells that share a GPU.
        threads: of each cell; None: ``OMP_NUM_THREADS``, else an equal share of the cores on GPUs,
            one core each without.
    """
    for key, value in (("cells_per_gpu", cells_per_gpu), ("threads", threads)):
        if value is not None and not (isinstance(value, int) and value >= 1):
            raise UserError(f"hydra.launcher.{key}={value}: expected a whole number from 1 on")
    if gpus is not None and (isinstance(gpus, str) or not isinstance(gpus, Sequence)):
        raise UserError(f"hydra.launcher.gpus={gpus}: expected a list, e.g. [0,1], or null")
    threads = threads or number_in("OMP_NUM_THREADS")
    named = visible_gpus() if gpus is None else [str(gpu) for gpu in gpus]
    if gpus:
        _check_visible(named)
    if named:
        share = threads or max(1, cores() // (len(named) * cells_per_gpu))
        return [
            Slot(f"gpu {gpu}", _environment(share) | {"CUDA_VISIBLE_DEVICES": gpu})
            for _ in range(cells_per_gpu)
            for gpu in named
        ]
    share = threads or 1
    return [Slot(f"cpu {n}", _environment(share)) for n in range(max(1, cores() // share))]


def visible_gpus() -> list[str]:
    """The names by which each visible GPU can be given to a process alone."""
    import torch

    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    if listed is None:
        return [str(number) for number in range(count)]
    return [name.strip() for name in listed.split(",") if name.strip()][:count]


def _check_visible(named: Sequence[str]) -> None:
    """Refuse a GPU that is not there: its cells would train on a CPU, and nobody would notice."""
    seen = visible_gpus()
    by_number = all(name.isdigit() for name in (*seen, *named))  # UUIDs cannot be compared
    absent = [name for name in named if name not in seen] if by_number or not seen else []
    if absent:
        raise UserError(
            f"hydra.launcher.gpus=[{','.join(named)}]: GPU {absent[0]} is not visible; expected "
            f"some of {', '.join(seen) or 'none: there is no GPU here'}. "
            "hydra.launcher.gpus=[] uses cores"
        )


def _environment(threads: int) -> dict[str, str]:
    """Threads that fight for cores make a step several times slower."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
