"""Read pictures: radiographs as 8-bit gray, masks as 0 and 1, or a reason why not."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Out = TypeVar("Out")

MASK_RULES = ("equals_255", "above_half")
# Whatever Pillow's readers raise on a file that was cut off or overwritten.
_DAMAGE = (OSError, SyntaxError, EOFError, ValueError, struct.error, zlib.error)


class PixelError(ValueError):
    """A picture that cannot be used; the message follows what it is of: "mask file is empty"."""


def read_image(path: Path) -> np.ndarray:
    """An 8-bit gray image (H, W); color is turned to gray, equal channels stay exact."""
    return _opened(path, _eight_bit)


def picture_size(path: Path) -> tuple[int, int]:
    """Height and width, from the file's first bytes."""
    return _opened(path, lambda picture: (picture.height, picture.width))


def read_mask(path: Path, rule: str) -> np.ndarray:
    """A mask (H, W) of 0 and 1, uint8."""
    return binarized(_opened(path, _eight_bit), rule)


def binarized(gray: np.ndarray, rule: str) -> np.ndarray:
    """Foreground by rule: ``equals_255``, or ``above_half`` of the 8-bit range.

    A mask with no value above 1 is one of 0 and 1 already.
    """
    if gray.size and gray.max() <= 1:
        return gray.astype(np.uint8)
    inside = gray == 255 if rule == "equals_255" else gray > 127
    return inside.astype(np.uint8)


def _opened(path: Path, use: Callable[[Image], Out]) -> Out:
    from PIL import Image, UnidentifiedImageError

    try:
        if path.stat().st_size == 0:
            raise PixelError("file is empty")
        with Image.open(path) as picture:
            return use(picture)
    except PixelError:
        raise
    except FileNotFoundError as error:
        raise PixelError("file is missing") from error
    except PermissionError as error:
        raise PixelError("file may not be read") from error
    except UnidentifiedImageError as error:
        raise PixelError("file is no picture") from error
    except _DAMAGE as error:
        raise PixelError("file is damaged") from error
    except Image.DecompressionBombError as error:
        raise PixelError("is too large") from error


def _eight_bit(picture: Image) -> np.ndarray:
    if picture.mode.startswith("I;16") or _cut_down(picture):
        raise PixelError("has 16 bits, not 8")
    if picture.mode in ("I", "F"):
        raise PixelError("has 32 bits, not 8")
    if picture.mode == "P":  # a palette may name grays in any order
        picture = picture.convert("RGB")
    if picture.mode == "1":
        picture = picture.convert("L")
    return np.asarray(picture.convert("L"))


def _cut_down(picture: Image) -> bool:
    """Whether 16-bit color comes out as 8-bit: Pillow says so in the raw mode alone."""
    return any(re.search(r";16[BLN]", str(tile.args)) for tile in picture.tile)
