"""Runs that a run starts from, such as the pre-training of a method: trained once, for all cells.

A method's option file names them under ``needs:``, each with the groups in which it differs. They
are runs as all others: signed, resumed, and shared by every cell that needs the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref import config
from semimedref.folder import RunFolder
from semimedref.owner import HeldError

if TYPE_CHECKING:
    from omegaconf import DictConfig

_PAUSE = 5.0  # seconds between two looks at a run that another process trains


def needed(cfg: DictConfig) -> Iterator[tuple[str, DictConfig]]:
    """The configurations of the runs that this one starts from, by their names."""
    from omegaconf import OmegaConf, open_dict

    if not cfg.get("needs"):
        return
    for name, changes in OmegaConf.to_container(cfg.needs, resolve=True).items():
        other = cfg.copy()
        with open_dict(other):
            for group, value in changes.items():
                whole = "_target_" in value  # another option; else some of its keys
                other[group] = value if whole else OmegaConf.merge(other[group], value)
            other.needs, other.row, other.experiment_name, other.study = {}, None, None, None
        yield str(name), other


def of_run(plain: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What a run with this configuration needs: resolved configurations, by the runs' names.

    Args:
        plain: its own, resolved.
        overrides: the words that compose it; asked only where it needs something, since what it
            needs may read what differs there.
    """
    if not plain.get("needs"):
        return {}
    others = [config.resolved(other) for _, other in needed(config.compose(list(overrides)))]
    return {config.run_name(other): other for other in others}


def trained(cfg: DictConfig, train: Callable[[DictConfig], object]) -> dict[str, Path]:
    """The folders of the runs that are needed; those that are missing are trained now.

    What another process trains already is waited for; should that one die, it goes on here.
    """
    folders = {}
    for name, other in needed(cfg):
        plain = config.resolved(other)
        folder = Path(plain["run_root"]) / config.run_name(plain)
        said = False
        while not _is_done(folder):
            try:
                train(other)
            except HeldError:
                if not said:
                    print(f"waits for {folder.name}, which another process trains", flush=True)
                said = True
                time.sleep(_PAUSE)
        folders[name] = folder
    return folders


def weights_of(folder: Path) -> dict[str, Any]:
    """The best weights of a finished run, by network."""
    from semimedref import checkpoint

    return checkpoint.pick(checkpoint.load(folder / "best.pt"), "weights")


def _is_done(folder: Path) -> bool:
    return folder.is_dir() and RunFolder(folder).result() is not None
