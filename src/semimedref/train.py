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
    if any(a.startswith("experiment=") for a in args) and not {"-m", "--multirun"} & set(args):
        if not any(a.startswith(("--cfg", "-c", "--info")) for a in args):
            args = ["-m", *args]
    sys.argv = ["semimedref train", *args]
    main = hydra.main(
        config_path=str(config.config_dir()),
        config_name="config",
        execution_whitelist=[*config.TRUSTED, "hydra_plugins.*"],
    )(task)
    main()
    return 0
