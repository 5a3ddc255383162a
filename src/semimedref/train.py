"""``semimedref train``: one run, or with -m the cells of a table on any launcher."""

from __future__ import annotations

from omegaconf import DictConfig

from semimedref import config
from semimedref.application import run_application
from semimedref.errors import UserError

# Jobs of joblib and submitit import this module before Hydra resolves their output folder.
config.register_resolvers()
_SWEEPS, _SHOWS = ("-m", "--multirun"), ("--cfg", "-c", "--info", "-i")


def task(cfg: DictConfig) -> float:
    """What each Hydra job does."""
    from semimedref.run import run

    return run(cfg)


def train_command(args: list[str]) -> int:
    """Hand the overrides to Hydra; errors come back as exceptions and are printed by the caller."""
    sweeps, shows = (any(a in words for a in args) for words in (_SWEEPS, _SHOWS))
    if sweeps and shows:
        raise UserError(
            "train: -m sweeps, and --cfg or --info shows the configuration of one run: leave -m out"
        )
    if not (sweeps or shows) and any(a.startswith("experiment=") for a in args):
        args = ["-m", *args]  # an experiment is a table: it always means all its cells
    run_application(args, task)
    return 0
