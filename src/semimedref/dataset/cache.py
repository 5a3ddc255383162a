"""Pictures of a split, decoded and resized once, as memory maps of 8-bit pixels.

The folder's name is a hash of what the images are and how they are transformed, so a changed source
is another folder. Masks are decoded when they are asked for, one by one: of an unlabeled image the
file is never opened. Builders lock each other out; whoever comes second finds the work done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semimedref.dataset.case import Case
from semimedref.dataset.hashes import ContentHashes
from semimedref.dataset.parallel import each
from semimedref.dataset.pixels import (
    MASK_RULES,
    PixelError,
    picture_size,
    read_image,
    read_mask,
)
from semimedref.dataset.roots import cache_root
from semimedref.errors import UserError
from semimedref.files import exclusive, whole_folder

_DECODER = 1  # raised when the decoding or resizing below changes: a new decoder is a new cache


@dataclass(frozen=True)
class Transform:
    """What happens to pixels before they are cached; every field is config."""

    side: int
    antialias: bool  # of the bicubic resize; masks are resized by nearest neighbor
    mask_rule: str  # what is foreground in a mask file

    def __post_init__(self) -> None:
        """Refuse an unknown rule before anything is decoded."""
        if self.mask_rule not in MASK_RULES:
            expected = " or ".join(MASK_RULES)
            raise UserError(f"dataset.transform.mask_rule={self.mask_rule}: expected {expected}")


class PixelCache:
    """Images and masks of some cases at one size."""

    def __init__(
        self, name: str, cases: Sequence[Case], *, transform: Transform, hashes: ContentHashes
    ) -> None:
        self.name, self.cases, self.transform, self._hashes = name, cases, transform, hashes
        sources = hashes.of((_file(c, "image") for c in cases), label=f"hashing {name}")
        content = [[c.id, sources[c.image]] for c in cases if c.image]
        how = [_DECODER, transform.side, transform.antialias, transform.mask_rule]
        key = hashlib.sha256(json.dumps([content, how]).encode()).hexdigest()[:16]
        self.folder = cache_root() / "pixels" / f"{name}-{transform.side}px-{key}"

    def images(self) -> np.ndarray:
        """All images (N, side, side), uint8, built now if they are not there."""
        path = self.folder / "images.npy"
        if not path.exists():
            with self._locked():
                if not path.exists():
                    self._build()
        return np.load(path, mmap_mode="r")

    def masks(self) -> MaskMap:
        """The masks, decoded when they are indexed."""
        self.images()
        return MaskMap(self)

    def build_masks(self, places: Sequence[int]) -> None:
        """Decode the masks at these places, unless they are cached and unchanged."""
        files = [_file(self.cases[i], "mask") for i in places]
        found = self._hashes.of(files, label=f"hashing masks of {self.name}")
        with self._locked():
            known = np.load(self.folder / "masks_sha256.npy", mmap_mode="r+")
            stale = [
                i for i, file in zip(places, files, strict=True)
                if known[i].decode() != found[file]
            ]  # fmt: skip
            if not stale:
                return
            pixels = np.load(self.folder / "masks.npy", mmap_mode="r+")
            label = f"decoding masks of {self.name}"
            for i, mask in zip(stale, each(self._mask, stale, label=label), strict=True):
                pixels[i] = mask
            pixels.flush()  # pixels are on the disk before the hash that vouches for them
            for i in stale:
                known[i] = found[_file(self.cases[i], "mask")].encode()
            known.flush()

    def _build(self) -> None:
        n, side = len(self.cases), self.transform.side
        with whole_folder(self.folder) as partial:
            pixels = _new(partial / "images.npy", np.uint8, (n, side, side))
            label = f"decoding {self.name}"
            for i, image in enumerate(each(self._image, range(n), label=label)):
                pixels[i] = image
            pixels.flush()
            _new(partial / "masks.npy", np.uint8, (n, side, side)).flush()  # takes no space yet
            _new(partial / "masks_sha256.npy", np.dtype("S64"), (n,)).flush()

    def _image(self, place: int) -> np.ndarray:
        case = self.cases[place]
        image = self._read(case, "image")
        return _resized(image, self.transform.side, antialias=self.transform.antialias)

    def _mask(self, place: int) -> np.ndarray:
        case = self.cases[place]
        mask = self._read(case, "mask")
        if mask.shape != picture_size(_file(case, "image")):
            raise _refused(self.name, case, "mask has another size than its image")
        return _nearest(mask, self.transform.side)

    def _read(self, case: Case, kind: str) -> np.ndarray:
        file = _file(case, kind)
        try:
            if kind == "image":
                return read_image(file)
            return read_mask(file, self.transform.mask_rule)
        except PixelError as error:
            raise _refused(self.name, case, f"{kind} {error} ({file})") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"the cache {self.folder.parent} cannot be written ({error.strerror}): set "
                "SEMIMEDREF_CACHE=FOLDER"
            ) from error
        with exclusive(self.folder.with_name(f"{self.folder.name}.lock")):
            yield


class MaskMap:
    """Masks by place, decoded at the first look; it stands where an array (N, H, W) is expected."""

    def __init__(self, cache: PixelCache) -> None:
        self._cache = cache
        self._pixels = np.load(cache.folder / "masks.npy", mmap_mode="r")
        self._ready = np.zeros(len(self._pixels), bool)
        self.shape, self.dtype = self._pixels.shape, self._pixels.dtype
        self.existing = tuple(i for i, case in enumerate(cache.cases) if case.mask)  # their places

    def require(self, places: Sequence[int]) -> None:
        """Decode these masks now, all at once."""
        wanted = [i for i in places if not self._ready[i]]
        if wanted:
            self._cache.build_masks(wanted)
            self._ready[wanted] = True

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, place: int | slice | Sequence[int]) -> np.ndarray:
        self.require(np.atleast_1d(np.arange(len(self))[place]).tolist())
        return self._pixels[place]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        del copy
        self.require(range(len(self)))
        return np.asarray(self._pixels, dtype=dtype)


def _file(case: Case, kind: str) -> Path:
    path = getattr(case, kind)
    if path is None:
        raise UserError(
            f"{case.id} has no {kind}: run `semimedref data verify dataset=…` with the same "
            "options to list every such case"
        )
    return path


def _refused(name: str, case: Case, found: str) -> UserError:
    return UserError(
        f"{name}: {case.id}: {found}; copy the file again, `semimedref data verify dataset=…` "
        "lists every such case"
    )


def _new(path: Path, dtype: object, shape: tuple[int, ...]) -> np.ndarray:
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def _resized(image: np.ndarray, side: int, *, antialias: bool) -> np.ndarray:
    if image.shape == (side, side):
        return image
    import torch
    import torch.nn.functional as F

    pixels = torch.from_numpy(image.astype(np.float32))[None, None]
    small = F.interpolate(pixels, (side, side), mode="bicubic", align_corners=False,
                          antialias=antialias)  # fmt: skip
    return small[0, 0].round().clamp(0, 255).to(torch.uint8).numpy()


def _nearest(mask: np.ndarray, side: int) -> np.ndarray:
    """The pixel of the source whose place is the target's, scaled and cut off."""
    rows = np.arange(side) * mask.shape[0] // side
    columns = np.arange(side) * mask.shape[1] // side
    return mask[rows[:, None], columns]
