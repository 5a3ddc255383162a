"""Set sentences in a picture: wrapped, with the words for left and right standing out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

Color = tuple[int, int, int]

INK: Color = (28, 32, 38)
MUTED: Color = (98, 106, 116)
_SIDES: dict[str, Color] = {"left": (0, 94, 162), "right": (180, 70, 0)}


@dataclass(frozen=True)
class Block:
    """A paragraph: its text, its size in pixels, and its lines once it has been wrapped."""

    text: str
    size: int
    bold: bool = False
    lines: Sequence[str] = ()

    @property
    def pitch(self) -> int:
        """Distance from line to line."""
        return round(1.45 * self.size)

    @property
    def height(self) -> int:
        """Height with the space below it."""
        return len(self.lines) * self.pitch + round(0.5 * self.size)

    def wrapped(self, width: int) -> Block:
        """The same paragraph broken into lines of at most this width."""
        # Measured in bold, so that no line grows too long by its emphasised words.
        return replace(self, lines=wrap(self.text, width, font(self.size, bold=True)))


@functools.cache
def font(size: int, bold: bool = False) -> FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: the same letters on every machine."""
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", name)), size)


def wrap(text: str, width: int, face: FreeTypeFont) -> list[str]:
    """Break a text at spaces, and inside a word only where it alone is too wide."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and face.getlength(f"{line} {word}") > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while face.getlength(line) > width and len(line) > 1:
            fits = max(
                n for n in range(1, len(line)) if n == 1 or face.getlength(line[:n]) <= width
            )
            lines.append(line[:fits])
            line = line[fits:]
    return [*lines, line] if line else lines


def draw_block(draw: ImageDraw, block: Block, corner: tuple[int, int]) -> None:
    """Draw a wrapped paragraph from its upper left corner."""
    x, y = corner
    for number, line in enumerate(block.lines):
        left = float(x)
        for word in line.split(" "):
            side = _SIDES.get(word.strip("“”.,;:!?\"'").lower())
            face = font(block.size, bold=block.bold or side is not None)
            draw.text((left, y + number * block.pitch), word, font=face, fill=side or INK)
            left += face.getlength(word) + font(block.size).getlength(" ")
