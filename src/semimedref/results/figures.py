"""Pictures of predictions: green true positive, red false positive, blue false negative."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from semimedref.results.lettering import INK, MUTED, Block, draw_block, font, wrap

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Gray = NDArray[np.uint8]
Mask = NDArray[np.bool_]
RGB = NDArray[np.uint8]
Color = tuple[int, int, int]

TRUE_POSITIVE: Color = (46, 204, 113)
FALSE_POSITIVE: Color = (235, 64, 52)
FALSE_NEGATIVE: Color = (66, 133, 255)
UNJUDGED: Color = (255, 193, 37)  # a prediction without a truth is neither right nor wrong

_FILL, _OUTLINE = 0.38, 0.95  # opacity inside a region and on its edge
_MIN_SIDE = 220  # a picture in a strip is at least this wide
_GAP, _MARGIN = 14, 18
_SEAM = 6  # between the pictures of a bare strip
_PAPER: Color = (255, 255, 255)


@dataclass(frozen=True)
class Swap:
    """An image read with its sentence and with left and right swapped in the sentence."""

    image: Gray
    text: str
    prediction: Mask
    swapped_text: str
    swapped_prediction: Mask
    truth: Mask | None = None


def overlay(image: Gray, truth: Mask | None, prediction: Mask) -> RGB:
    """Paint a prediction (H, W) over a gray image (H, W), with the truth's verdict as color."""
    _check_shapes(image, truth, prediction)
    prediction = prediction.astype(bool)
    if truth is None:
        regions = [(prediction, UNJUDGED)]
    else:
        truth = truth.astype(bool)
        regions = [
            (prediction & truth, TRUE_POSITIVE),
            (prediction & ~truth, FALSE_POSITIVE),
            (truth & ~prediction, FALSE_NEGATIVE),
        ]
    canvas = np.repeat(image[..., None].astype(np.float64), 3, axis=2)
    width = max(1, min(image.shape) // 120)
    for region, color in regions:
        opacity = np.where(_edge(region, width), _OUTLINE, _FILL) * region
        canvas += opacity[..., None] * (np.asarray(color, dtype=np.float64) - canvas)
    return np.clip(canvas.round(), 0, 255).astype(np.uint8)


def panel(
    image: Gray,
    text: str,
    truth: Mask | None,
    prediction: Mask,
    path: Path,
    *,
    title: str | None,
) -> None:
    """Write a strip image | truth | prediction, with title, sentence and legend around it.

    With neither title nor text only the pictures are written, on a transparent ground: the form
    for ``overlays/``, where the report page sets the sentence in letters that a phone can show.
    """
    big, big_truth, big_prediction = _upscale(image, truth, prediction)
    pictures = [("image", np.repeat(big[..., None], 3, axis=2))]
    if big_truth is not None:
        pictures.append(("truth", overlay(big, big_truth, big_truth)))
    pictures.append(("prediction", overlay(big, big_truth, big_prediction)))
    if not title and not text:
        _save(_bare([pixels for _, pixels in pictures]), path)
        return
    above = [Block(title, 17, bold=True)] if title else []
    below = [Block(f"“{text}”", 16)] if text else []
    _save(_strip(pictures, above, below, legend=truth is not None), path)


def swap_strip(rows: Sequence[Swap], path: Path) -> None:
    """Write one line per swap: the image, its sentence's mask, and the mask after left ↔ right."""
    strips = []
    for number, row in enumerate(rows):
        big, big_truth, first = _upscale(row.image, row.truth, row.prediction)
        _, _, second = _upscale(row.image, None, row.swapped_prediction)
        heads = ("image", "sentence → mask", "left ↔ right swapped → mask")
        pictures = [
            (heads[0] if number == 0 else "", np.repeat(big[..., None], 3, axis=2)),
            (heads[1] if number == 0 else "", overlay(big, big_truth, first)),
            (heads[2] if number == 0 else "", overlay(big, None, second)),
        ]
        strips.append(_sentence_strip(pictures, ("", row.text, row.swapped_text)))
    _save(_stack(strips), path)


def _bare(pictures: Sequence[RGB]) -> Image:
    from PIL import Image

    height, side = pictures[0].shape[:2]
    canvas = Image.new("RGBA", (len(pictures) * (side + _SEAM) - _SEAM, height), (0, 0, 0, 0))
    for index, pixels in enumerate(pictures):
        canvas.paste(Image.fromarray(pixels), (index * (side + _SEAM), 0))
    return canvas


def _strip(
    pictures: Sequence[tuple[str, RGB]],
    above: Sequence[Block],
    below: Sequence[Block],
    *,
    legend: bool,
) -> Image:
    """Pictures side by side with headings, text blocks above and below, and the color legend."""
    from PIL import Image, ImageDraw

    height, side = pictures[0][1].shape[:2]
    width = len(pictures) * side + (len(pictures) - 1) * _GAP
    above = [block.wrapped(width) for block in above]
    below = [block.wrapped(width) for block in below]
    top = _MARGIN + sum(block.height for block in above)
    bottom = top + 24 + height + 12
    total = bottom + sum(block.height for block in below) + (28 if legend else 0) + _MARGIN - 12
    canvas = Image.new("RGB", (width + 2 * _MARGIN, total), _PAPER)
    draw = ImageDraw.Draw(canvas)
    _draw_blocks(draw, above, _MARGIN)
    for index, (head, pixels) in enumerate(pictures):
        x = _MARGIN + index * (side + _GAP)
        draw.text((x, top), head, font=font(14), fill=MUTED)
        canvas.paste(Image.fromarray(pixels), (x, top + 24))
    y = _draw_blocks(draw, below, bottom)
    if legend:
        _legend(draw, y + 4)
    return canvas


def _sentence_strip(pictures: Sequence[tuple[str, RGB]], texts: Sequence[str]) -> Image:
    """Pictures side by side, each with its own sentence below."""
    from PIL import Image, ImageDraw

    height, side = pictures[0][1].shape[:2]
    blocks = [Block(f"“{text}”" if text else "", 15).wrapped(side) for text in texts]
    heading = 26 if any(head for head, _ in pictures) else 0
    tallest = max(block.height for block in blocks)
    size = (3 * side + 2 * _GAP + 2 * _MARGIN, _MARGIN + heading + height + 10 + tallest)
    canvas = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(canvas)
    for index, ((head, pixels), block) in enumerate(zip(pictures, blocks, strict=True)):
        x = _MARGIN + index * (side + _GAP)
        for line in wrap(head, side, font(14))[:1]:
            draw.text((x, _MARGIN), line, font=font(14), fill=MUTED)
        canvas.paste(Image.fromarray(pixels), (x, _MARGIN + heading))
        draw_block(draw, block, (x, _MARGIN + heading + height + 10))
    return canvas


def _stack(strips: Sequence[Image]) -> Image:
    from PIL import Image

    size = (max(s.width for s in strips), sum(s.height for s in strips) + _MARGIN)
    canvas = Image.new("RGB", size, _PAPER)
    y = 0
    for strip in strips:
        canvas.paste(strip, (0, y))
        y += strip.height
    return canvas


def _draw_blocks(draw: ImageDraw, blocks: Sequence[Block], y: int) -> int:
    for block in blocks:
        draw_block(draw, block, (_MARGIN, y))
        y += block.height
    return y


def _legend(draw: ImageDraw, y: int) -> None:
    x = _MARGIN
    entries = (
        ("true positive", TRUE_POSITIVE),
        ("false positive", FALSE_POSITIVE),
        ("false negative", FALSE_NEGATIVE),
    )
    for name, color in entries:
        draw.rounded_rectangle((x, y + 2, x + 13, y + 15), 3, fill=color)
        draw.text((x + 20, y), name, font=font(14), fill=INK)
        x += 20 + round(draw.textlength(name, font=font(14))) + 22


def _upscale(image: Gray, truth: Mask | None, prediction: Mask) -> tuple[Gray, Mask | None, Mask]:
    """Enlarge by a whole factor until a picture is wide enough; masks keep smooth outlines."""
    _check_shapes(image, truth, prediction)
    factor = max(1, -(-_MIN_SIDE // min(image.shape)))
    size = (image.shape[1] * factor, image.shape[0] * factor)
    enlarge = functools.partial(_resize_mask, size=size)
    big_truth = None if truth is None else enlarge(truth)
    return _resize(image, size, smooth=True), big_truth, enlarge(prediction)


def _resize_mask(mask: Mask, size: tuple[int, int]) -> Mask:
    return _resize(mask.astype(np.uint8) * 255, size, smooth=False) >= 128


def _resize(pixels: Gray, size: tuple[int, int], *, smooth: bool) -> Gray:
    from PIL import Image

    kind = Image.Resampling.LANCZOS if smooth else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(pixels).resize(size, kind))


def _edge(region: Mask, width: int) -> Mask:
    """The outermost pixels of a region, ``width`` deep; the picture's border is no edge."""
    inner = region
    for _ in range(width):
        grown = np.pad(inner, 1, mode="edge")
        inner = inner & grown[:-2, 1:-1] & grown[2:, 1:-1] & grown[1:-1, :-2] & grown[1:-1, 2:]
    return region & ~inner


def _check_shapes(image: Gray, truth: Mask | None, prediction: Mask) -> None:
    shapes = {image.shape, prediction.shape} | (set() if truth is None else {truth.shape})
    if len(shapes) > 1 or image.ndim != 2:
        raise ValueError(f"found shapes {sorted(shapes)}, expected one (H, W) for image and masks")


def _save(canvas: Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path, format="PNG")  # smaller files would cost most of the time of a short run
