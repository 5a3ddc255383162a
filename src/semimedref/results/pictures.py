"""Pictures for inside a page, so that the page asks for nothing."""

from __future__ import annotations

import base64
import io
from pathlib import Path

from semimedref.errors import UserError

_QUALITY = 80


def data_uri(path: Path) -> tuple[str, int, int]:
    """The picture as WebP for inside the page, a fifth of the PNG's size, and its two sides."""
    from PIL import Image, UnidentifiedImageError

    buffer = io.BytesIO()
    try:
        with Image.open(path) as picture:
            width, height = picture.size
            mode = "RGBA" if picture.has_transparency_data else "RGB"
            picture.convert(mode).save(buffer, format="WEBP", quality=_QUALITY, method=4)
    except (UnidentifiedImageError, OSError):
        raise UserError(
            f"{path} is not a picture; expected the PNG that the run wrote, delete the "
            f"folder {path.parent.name}/ to leave it out (`semimedref status` shows the cells)"
        ) from None
    return f"data:image/webp;base64,{_text(buffer.getvalue())}", width, height


def svg_uri(path: Path) -> str:
    """A drawing as a source for ``<img>``, where it can neither run a script nor load a file."""
    return f"data:image/svg+xml;base64,{_text(path.read_bytes())}"


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
