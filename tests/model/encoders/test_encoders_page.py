"""docs/encoders.md names every encoder, with the sizes that they have."""

import re
from pathlib import Path

import pytest
import torch

from semimedref.config import build, compose, config_dir

PAGE = (Path(__file__).parents[3] / "docs" / "encoders.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+|by \w+) \| ([\d, ]+|by \w+) \|", re.M)
IMAGE, TEXT = (ROW.findall(part) for part in PAGE.split("## Text encoders"))


@pytest.mark.parametrize(("group", "rows"), [("image_encoder", IMAGE), ("text_encoder", TEXT)])
def test_every_option_has_a_row(group, rows):
    options = {file.stem for file in Path(config_dir(), group).glob("*.yaml")}
    assert {name for name, _, _ in rows} == options


@pytest.mark.parametrize(
    ("group", "name", "size", "widths"),
    [
        (group, *row)
        for group, rows in (("image_encoder", IMAGE), ("text_encoder", TEXT))
        for row in rows
        if not row[1].startswith("by")
    ],
)
def test_sizes_are_those_of_the_networks(group, name, size, widths):
    config = compose([f"{group}={name}"])
    if "weights" in config[group]:
        config[group].weights = "random"
    if "center_on" in config[group]:
        config[group].center_on = None
    with torch.device("meta"):
        encoder = build(config, group)
    assert f"{sum(p.numel() for p in encoder.parameters()):,}" == size
    found = encoder.widths if group == "image_encoder" else [encoder.width]
    assert ", ".join(f"{width:,}" for width in found) == widths
