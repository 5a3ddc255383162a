"""Hydra's application around a function of the configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from semimedref import config

if TYPE_CHECKING:
    from omegaconf import DictConfig


def run_application(args: list[str], function: Callable[[DictConfig], Any]) -> None:
    """Compose what the words say and call the function; errors come back as exceptions."""
    import hydra

    config.register_resolvers()
    config.read_files_once()
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = ["semimedref train", *args]
    main = hydra.main(
        config_path=str(config.config_dir()),
        config_name="config",
        execution_whitelist=[*(f"{name}.*" for name in config.TRUSTED), "hydra_plugins.*"],
    )(function)
    main()
