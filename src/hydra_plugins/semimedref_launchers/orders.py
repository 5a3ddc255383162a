"""From the words of a sweep to orders for processes elsewhere, and back to Hydra's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

if TYPE_CHECKING:
    from semimedref.launch.cell import CellOrder


def config_dirs(config: DictConfig) -> list[Path]:
    """The user's configuration folders: ``--config-dir`` and ``hydra.searchpath``."""
    ours = ("hydra", "main", "schema")
    found = config.hydra.runtime.config_sources
    return [Path(s.path) for s in found if s.schema == "file" and s.provider not in ours]


def orders_of(config: DictConfig, job_overrides: Sequence[Sequence[str]]) -> list[CellOrder]:
    """An order for each list of overrides; the name is composed."""
    from semimedref import config as configs
    from semimedref.launch.cell import CellOrder

    root = str(Path(config.run_root).absolute())
    orders = []
    for overrides in job_overrides:
        plain = configs.resolved(configs.compose(list(overrides)))
        orders.append(CellOrder(configs.run_name(plain), root, tuple(overrides)))
    return orders


def with_config_dirs(order: CellOrder, folders: Sequence[Path]) -> CellOrder:
    """The order with its configuration folders, as words for Hydra."""
    if not folders:
        return order
    paths = ",".join(f"'file://{folder}'" for folder in folders)
    return replace(order, flags=(f"hydra.searchpath=[{paths}]",))


def job_returns(orders: Sequence[CellOrder], *, finished: bool) -> list[JobReturn]:
    """Hydra's answer for each order, from what its run folder holds."""
    from semimedref.folder import objective
    from semimedref.launch.queue import is_stopped
    from semimedref.results.store import load_failure, load_result, state

    answers = []
    for order in orders:
        answer = JobReturn(overrides=list(order.overrides), status=JobStatus.UNKNOWN)
        found = state(order.folder) if finished else "missing"
        if found == "done":
            answer.status = JobStatus.COMPLETED
            answer.return_value = objective(load_result(order.folder))
        elif is_stopped(order.folder):
            answer.status = JobStatus.COMPLETED
        elif finished:
            answer.status = JobStatus.FAILED
            told = load_failure(order.folder) if found == "failed" else f"the run is {found}"
            answer.return_value = RuntimeError(f"{order.name}: {told}")
        answers.append(answer)
    return answers
