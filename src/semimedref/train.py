"""``semimedref train``: one run, or with -m the cells of a table on any launcher."""

from __future__ import annotations

import os
import sys

from omegaconf import DictConfig

from semimedref import config

# Jobs of joblib and submitit import this module before Hydra resolves their output folder.
config.register_resolvers()


def task(cfg: DictConfig) -> float:
    """What each Hydra job does."""
    from semimedref.run import run

    return run(cfg)


def train_command(args: list[str]) -> int:
    """Hand the overrides to Hydra; errors come back as exceptions and are printed by the caller."""
    import hydra

    os.environ["HYDRA_FULL_ERROR"] = "1"
    plain = any(a in ("-m", "--multirun", "--cfg", "-c", "--info", "-i") for a in args)
    if not plain and any(a.startswith("experiment=") for a in args):
        args = ["-m", *args]  # an experiment is a table: it always means all its cells
    sys.argv = ["semimedref train", *args]
    main = hydra.main(
        config_path=str(config.config_dir()),
        config_name="config",
        execution_whitelist=[*config.TRUSTED, "hydra_plugins.*"],
    )(task)
    main()
    return 0
