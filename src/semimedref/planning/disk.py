"""Bytes on the disk: of a run's folder, of decoded pictures, of the code that waits in a queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semimedref.config import config_dir, is_synthetic
from semimedref.planning.images import Images

# Bytes, rounded up from smoke runs of the phantom; beside real weights they hardly count.
_IMAGE_LINE = 110  # of per_image.csv: 84 there, where names are short
_EPOCH_ROW = 450  # of metrics.jsonl and train.log
_PAPERS = 40_000  # run.json, result.json, .hydra
_PICTURES = 900_000  # overlays, which patients' data sets do not have
# A checkpoint is written beside the old one and then renamed.
COPIES_WHILE_SAVING = 2


def folder_bytes(config: Mapping[str, Any], *, images: Images, best: int, segments: bool) -> int:
    """What a finished run leaves: best weights, numbers, and pictures where they are allowed."""
    lines = images.test * _IMAGE_LINE if segments else 0
    shown = config["overlays"] == "always" or (
        config["overlays"] == "synthetic" and is_synthetic(config)
    )
    pictures = _PICTURES if shown and segments else 0
    return best + lines + pictures + config["trainer"]["epochs"] * _EPOCH_ROW + _PAPERS


def cache_of(config: Mapping[str, Any], images: Images) -> tuple[str, int]:
    """The pixel cache that a run reads, by name, and its bytes once all masks are decoded."""
    node, side = config["dataset"], int(config["scale"]["image_side"])
    layers = 2  # images and masks
    if is_synthetic(config):
        layers, side = 3, int(node["side"])  # lesions that no sentence names, too
    return f"{node['name']}-{side}px", layers * images.total * side**2


def code_bytes() -> int:
    """The copy of program and configuration that a submission keeps."""
    package = Path(__file__).parents[1]
    trees = {package, package.parent / "hydra_plugins", config_dir()}
    files = {f for tree in trees for f in tree.rglob("*") if f.suffix != ".pyc" and f.is_file()}
    return sum(file.stat().st_size for file in files)
