"""Images: a batch from the phantom's memory map against decoding a PNG pair for each sample."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from benchmarks.measure import Comparison, compare
from benchmarks.size import Size
from semimedref.config import build, compose
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch, Split


def run(size: Size) -> list[Comparison]:
    """``Pool.fetch`` of random batches; only where the pixels come from differs."""
    cfg = compose(list(size.cpu))
    split = build(cfg, "dataset").split("train")
    places = tuple(range(0, len(split), len(split) // size.files))[: size.files]
    with TemporaryDirectory() as folder:
        mapped = Pool(split, places, cfg.scale.image_side, True)
        decoded = replace(mapped, split=_as_files(split, places, Path(folder)))
        _check(mapped, decoded)
        side = split.images.shape[-1]
        return [
            compare(
                "data",
                f"batch of {size.batch} images and masks, {side} px",
                ours=("Pool.fetch, memory map", _fetches(mapped, size.batch)),
                obvious=("PIL decodes PNG pairs", _fetches(decoded, size.batch)),
                size=size,
                note="files are in the page cache; compare with the time of a whole step",
            )
        ]


class _Files:
    """Decodes file number i when indexed, where a split has an array."""

    def __init__(self, folder: Path, *, highest: int) -> None:
        self.folder, self.highest = folder, highest

    def __getitem__(self, i: int) -> np.ndarray:
        with Image.open(self.folder / f"{i}.png") as file:
            pixels = np.asarray(file.convert("L"))
        return pixels if self.highest == 255 else (pixels > 127).astype(np.uint8)


def _as_files(split: Split, places: tuple[int, ...], folder: Path) -> Split:
    """Masks are 0 and 255, as data sets are published."""
    for name, array, factor in (("images", split.images, 1), ("masks", split.masks, 255)):
        (folder / name).mkdir()
        for i in places:
            Image.fromarray(array[i] * np.uint8(factor)).save(folder / name / f"{i}.png")
    images, masks = _Files(folder / "images", highest=255), _Files(folder / "masks", highest=1)
    return replace(split, images=images, masks=masks)


def _check(mapped: Pool, decoded: Pool) -> None:
    for ours, obvious in zip(mapped.batches(64), decoded.batches(64), strict=True):
        if not (torch.equal(ours.image, obvious.image) and torch.equal(ours.mask, obvious.mask)):
            raise AssertionError("the decoded images are not those of the memory map")


def _fetches(pool: Pool, batch: int) -> object:
    """A function that fetches the next random batch; equal batches for equal pools."""
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(len(pool)), (8, 1)), axis=1)
    batches = cycle(orders[:, :batch].tolist())

    def fetch() -> Batch:
        return pool.fetch(next(batches))

    return fetch
