"""A contact sheet: images of a split beside their outlined truth, each with its sentence."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np

from semimedref.dataset.sample import Split
from semimedref.errors import UserError

_TILES, _COLUMNS, _SIDE, _CAPTION = 12, 3, 220, 46


def contact_sheet(split: Split, path: Path) -> None:
    """Write the first images of a split as one PNG."""
    from PIL import Image, ImageDraw

    n = min(_TILES, len(split))
    rows = -(-n // _COLUMNS)
    width, height = 2 * _SIDE + 12, _SIDE + _CAPTION
    sheet = Image.new("RGB", (_COLUMNS * width, rows * height), "white")
    pen = ImageDraw.Draw(sheet)
    for i in range(n):
        x, y = (i % _COLUMNS) * width, (i // _COLUMNS) * height
        for k, tile in enumerate(
            (_gray(split.images[i]), _marked(split.images[i], split.masks[i]))
        ):
            picture = Image.fromarray(tile).resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
            sheet.paste(picture, (x + k * _SIDE, y))
        lines = textwrap.wrap(split.texts[i], 68)[:3]
        pen.multiline_text((x + 2, y + _SIDE + 2), "\n".join(lines), fill="black", font_size=12)
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
    tile[inside] = 0.55 * tile[inside] + 0.45 * np.array([0, 200, 90], np.float32)
    return tile.astype(np.uint8)
