"""Files on disk: a batch from the pixel cache against decoding with PIL; memory of a long index."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from PIL import Image

from benchmarks.data import _fetches
from benchmarks.measure import Comparison, compare
from benchmarks.memory import loader_memory
from benchmarks.size import Size
from semimedref.config import build, compose
from semimedref.dataset.file_dataset import FileDataset
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Split


def run(size: Size) -> list[Comparison]:
    """``Pool.fetch`` at the paper's side; only where the pixels come from differs."""
    rows = []
    for label, pixels, mode in (("gray", size.side, "L"), ("RGB", 512, "RGB")):
        with _data_set(size, pixels, mode) as dataset:
            cached = dataset.split("train")
            ours = Pool(cached, tuple(range(len(cached))), size.side, True)
            decoded = replace(ours, split=_decoding(dataset, cached, size.side))
            _check(ours, decoded)
            rows.append(
                compare(
                    "files",
                    f"batch of {size.batch} at {size.side} px, {label} PNG of {pixels} px",
                    ours=("Pool.fetch, pixel cache", _fetches(ours, size.batch)),
                    obvious=("PIL decodes and resizes", _fetches(decoded, size.batch)),
                    size=size,
                    note=_memory(size) if not rows else "",
                )
            )
    return rows


def _memory(size: Size) -> str:
    used = loader_memory(images=size.index, side=size.side, steps=20, batch=size.batch, workers=2)
    shown = ", ".join(f"{name} {mib:.0f}" for name, mib in used.items())
    return f"RssAnon of a loader over {size.index:,} images, MiB: {shown}; at most 1,024 is asked"


@contextmanager
def _data_set(size: Size, pixels: int, mode: str) -> Iterator[FileDataset]:
    """PNG pairs of the phantom, enlarged, as a user would have a data set on disk."""
    split = build(compose(list(size.cpu)), "dataset").split("train")
    with TemporaryDirectory() as folder:
        root = Path(folder)
        with mock.patch.dict(os.environ, {"SEMIMEDREF_CACHE": str(root / "cache")}):
            _write(split, root / "data", size.files, pixels, mode)
            options = ["dataset=qata_cov19", f"dataset.root={root / 'data'}"]
            options += ["dataset.published=null", "dataset.transform.antialias=true"]
            yield build(compose([*options, f"scale.image_side={size.side}"]), "dataset")


def _write(split: Split, root: Path, n: int, pixels: int, mode: str) -> None:
    for kind in ("images", "masks"):
        (root / "train" / kind).mkdir(parents=True)
    with (root / "annotations.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "split", "text_sgseg"])
        for i in range(n):
            image = Image.fromarray(split.images[i]).resize((pixels, pixels), Image.BICUBIC)
            mask = Image.fromarray(split.masks[i] * np.uint8(255)).resize((pixels, pixels), 0)
            image.convert(mode).save(root / "train" / "images" / f"{i}.png")
            mask.convert(mode).save(root / "train" / "masks" / f"mask_{i}.png")
            table.writerow([f"{i}.png", "train", split.texts[i]])


class _Decoding:
    """Decodes and resizes file number i when indexed, where a split has an array."""

    def __init__(self, files: list[Path], side: int, *, mask: bool) -> None:
        self.files, self.side, self.mask = files, side, mask

    def __getitem__(self, i: int) -> np.ndarray:
        with Image.open(self.files[i]) as file:
            how = Image.NEAREST if self.mask else Image.BICUBIC
            pixels = np.asarray(file.convert("L").resize((self.side, self.side), how))
        return (pixels == 255).astype(np.uint8) if self.mask else pixels


def _decoding(dataset: FileDataset, split: Split, side: int) -> Split:
    cases = dataset.found.split("train")
    images = _Decoding([c.image for c in cases], side, mask=False)
    return replace(split, images=images, masks=_Decoding([c.mask for c in cases], side, mask=True))


def _check(ours: Pool, decoded: Pool) -> None:
    """Equal but for rounding; of a resized mask, PIL takes other neighbors at some edges."""
    for a, b in zip(ours.batches(64), decoded.batches(64), strict=True):
        apart = (a.image.float() - b.image.float()).abs().max()
        if apart > 1 or (a.mask != b.mask).float().mean() > 0.02:
            raise AssertionError(f"the cache does not hold the images: {apart:.0f} gray values off")
