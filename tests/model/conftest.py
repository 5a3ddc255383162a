import importlib
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from semimedref.model.mmi_unet import MMIUNet

CONF = Path(__file__).parents[2] / "conf"


@pytest.fixture(scope="session")
def option():
    """Build an option of a config group: option("text_encoder", "tiny", cache=False)."""

    def build(group, name, **changes):
        files = {"preset": CONF / "preset" / "paper.yaml", group: CONF / group / f"{name}.yaml"}
        groups = OmegaConf.create({key: OmegaConf.load(file) for key, file in files.items()})
        config = {**OmegaConf.to_container(groups, resolve=True)[group], **changes}
        module, _, target = config.pop("_target_").rpartition(".")
        return getattr(importlib.import_module(module), target)(**config)

    return build


@pytest.fixture
def tiny_model(option):
    """A tiny MMI-UNet of 96 px; keyword arguments change it."""

    def build(image_encoder=None, text_encoder=None, **changes):
        settings = {
            "image_side": 96,
            "heads": 4,
            "ffn_width": 16,
            "dropout": 0.1,
            "position_code": False,
            "mask_padding": False,
        }
        return MMIUNet(
            image_encoder or option("image_encoder", "tiny"),
            text_encoder or option("text_encoder", "tiny"),
            **{**settings, **changes},
        )

    return build
