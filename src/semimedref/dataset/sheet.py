"""A contact sheet: images of a split beside their outlined truth, each with its sentence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from semimedref.dataset.sample import Split
from semimedref.errors import UserError

_TILES, _COLUMNS = 12, 3  # images at most, and in a row
_SIDE, _CAPTION, _GAP = 220, 46, 12  # pixels: of a picture, below it, between two images
_LINES, _LETTERS, _FONT = 3, 68, 12  # of a caption: that many fit below two pictures
_GREEN, _OPACITY = (0, 200, 90), 0.45  # of the mask over the image


def contact_sheet(split: Split, path: Path, *, places: Sequence[int] | None = None) -> None:
    """Write the first images of a split, or those at some places, as one PNG."""
    from PIL import Image, ImageDraw

    chosen = list(range(min(_TILES, len(split))) if places is None else places)
    n = len(chosen)
    rows = -(-n // _COLUMNS)
    width, height = 2 * _SIDE + _GAP, _SIDE + _CAPTION
    sheet = Image.new("RGB", (_COLUMNS * width, rows * height), "white")
    pen = ImageDraw.Draw(sheet)
    images, masked = split.images[chosen], set(split.masked)
    for i in range(n):
        x, y = (i % _COLUMNS) * width, (i // _COLUMNS) * height
        mask = split.masks[chosen[i]] if chosen[i] in masked else np.zeros_like(images[i])
        for k, tile in enumerate((_gray(images[i]), _marked(images[i], mask))):
            picture = Image.fromarray(tile).resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
            sheet.paste(picture, (x + k * _SIDE, y))
        lines = textwrap.wrap(split.texts[chosen[i]], _LETTERS)[:_LINES]
        place = (x + 2, y + _SIDE + 2)
        pen.multiline_text(place, "\n".join(lines), fill="black", font_size=_FONT)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        sheet.save(path)
    except ValueError as error:
        raise UserError(f"out={path}: expected the name of a picture, such as sheet.png") from error


def _gray(image: np.ndarray) -> np.ndarray:
    return np.repeat(np.asarray(image)[..., None], 3, axis=-1)


def _marked(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    tile = _gray(image).astype(np.float32)
    inside = np.asarray(mask) > 0
    tile[inside] = (1 - _OPACITY) * tile[inside] + _OPACITY * np.array(_GREEN, np.float32)
    return tile.astype(np.uint8)
