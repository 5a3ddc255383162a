"""Pictures in lines and columns, with sentences; sizes are set so that nothing overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from semimedref.results.figure import style
from semimedref.results.figures import FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_POSITIVE, overlay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Mask = NDArray[np.bool_]

COLORS_IN_WORDS = (
    "Green is true positive, red with rising strokes false positive, blue with falling strokes "
    "false negative; a white line runs around the true mask."
)
_GAP, _TEXT, _PITCH = 0.07, 1.3, 0.125  # inches: between pictures, of a text column, of a line
_MAX_SIDE = 1.35
_MARGIN = 0.04
_HATCH = {"false positive": "//////", "false negative": "\\\\\\\\\\\\"}
_PIECE = 0.14  # inches of a piece of the legend


@dataclass(frozen=True)
class Picture:
    """An image (H, W) uint8; with a prediction, and a truth where there is one; words below."""

    image: NDArray[np.uint8]
    truth: Mask | None = None
    prediction: Mask | None = None
    foot: str = ""
    box: tuple[int, int, int, int] | None = None  # left, top, right, bottom, drawn as a frame


Line = Sequence[Picture | str]


def grid(heads: Sequence[str], lines: Sequence[Line], *, legend: bool) -> Canvas:
    """A page-wide figure: a heading for each column; a line's cells are pictures or sentences."""
    from matplotlib.figure import Figure as Canvas

    texts = [isinstance(cell, str) for cell in lines[0]]
    room = style.PAGE - 2 * _MARGIN - _TEXT * sum(texts) - _GAP * (len(texts) - 1)
    side = min(_MAX_SIDE, room / texts.count(False))
    widths = [_TEXT if text else side for text in texts]
    width = sum(widths) + _GAP * (len(texts) - 1) + 2 * _MARGIN
    wrapped = [
        style.wrapped(head, across, size=style.SMALL, bold=True)
        for head, across in zip(heads, widths, strict=True)
    ]
    top = _MARGIN + max(map(len, wrapped)) * _PITCH + 0.03
    heights = [_height(line, widths, side) for line in lines]
    total = top + sum(heights) + (0.24 if legend else 0)
    figure = Canvas(figsize=(width, total))
    lefts = [_MARGIN + sum(widths[:i]) + _GAP * i for i in range(len(widths))]
    for left, words in zip(lefts, wrapped, strict=True):
        _write(figure, words, left, top - 0.03 - len(words) * _PITCH, weight="bold")
    y = top
    for line, height in zip(lines, heights, strict=True):
        for cell, left, across in zip(line, lefts, widths, strict=True):
            _cell(figure, cell, left, y, across)
        y += height
    if legend:
        _legend(figure, total - 0.19)
    return figure


def _height(line: Line, widths: Sequence[float], side: float) -> float:
    tallest = 0.0
    for cell, width in zip(line, widths, strict=True):
        words = cell if isinstance(cell, str) else cell.foot
        letters = len(_paragraphs(words, width)) * _PITCH
        tallest = max(tallest, letters if isinstance(cell, str) else side + 0.03 + letters)
    return tallest + _GAP


def _cell(figure: Canvas, cell: Picture | str, left: float, y: float, across: float) -> None:
    if isinstance(cell, str):
        _write(figure, _paragraphs(cell, across), left, y + 0.02)
        return
    width, height = figure.get_size_inches()
    place = (left / width, 1 - (y + across) / height, across / width, across / height)
    ax = figure.add_axes(place)
    ax.set_axis_off()
    _show(ax, cell)
    words = style.wrapped(cell.foot, across, size=style.SMALL)
    _write(figure, words, left, y + across + 0.03)


def _paragraphs(text: str, width: float) -> list[str]:
    return [
        line for part in text.split("\n") for line in style.wrapped(part, width, size=style.SMALL)
    ]


def _show(ax: Axes, picture: Picture) -> None:
    from matplotlib.patches import Rectangle

    truth, prediction = picture.truth, picture.prediction
    pixels = picture.image if prediction is None else overlay(picture.image, truth, prediction)
    # "none" keeps the image's own pixels in vector files.
    ax.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="none", aspect="auto")
    outlined = prediction if truth is None else truth
    if prediction is not None and outlined is not None:
        _outline(ax, outlined)
    if prediction is not None and truth is not None:
        wrong = {"false positive": prediction & ~truth, "false negative": truth & ~prediction}
        for kind, region in wrong.items():
            _stroke(ax, region, _HATCH[kind])
    if picture.box is not None:
        left, top, right, bottom = (v - 0.5 for v in picture.box)
        for color, lw in (("black", 1.8), ("white", 0.8)):  # seen on dark and on light ground
            frame = Rectangle((left, top), right - left, bottom - top, fill=False, ec=color, lw=lw)
            ax.add_patch(frame)


def _stroke(ax: Axes, region: Mask, hatch: str) -> None:
    """Hatch a region, for readers who do not see its color."""
    if not region.any():
        return
    ax.contourf(*_padded(region), levels=[0.5, 1.5], colors="none", hatches=[hatch])
    _fit(ax, region)


def _outline(ax: Axes, region: Mask) -> None:
    """A line around a region that is seen on dark and on light ground, and without color."""
    if not region.any():
        return
    for color, width in (("black", 1.3), ("white", 0.6)):
        ax.contour(*_padded(region), levels=[0.5], colors=color, linewidths=width)
    _fit(ax, region)


def _padded(region: Mask) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Columns, rows and the region with a rim around it, so that its lines close at the border."""
    y, x = (np.arange(-1, n + 1) for n in region.shape)
    return x, y, np.pad(region.astype(np.float64), 1)


def _fit(ax: Axes, region: Mask) -> None:
    ax.set(xlim=(-0.5, region.shape[1] - 0.5), ylim=(region.shape[0] - 0.5, -0.5))


def _write(
    figure: Canvas, words: Sequence[str], left: float, y: float, *, weight: str = "normal"
) -> None:
    width, height = figure.get_size_inches()
    for number, text in enumerate(words):
        at = (left / width, 1 - (y + number * _PITCH) / height)
        figure.text(*at, text, fontsize=style.SMALL, va="top", ha="left", weight=weight)


def _legend(figure: Canvas, y: float) -> None:
    from matplotlib.patches import Rectangle

    width, height = figure.get_size_inches()
    kinds = {
        "true positive": TRUE_POSITIVE,
        "false positive": FALSE_POSITIVE,
        "false negative": FALSE_NEGATIVE,
    }
    left = _MARGIN
    for name, color in kinds.items():
        piece = Rectangle(
            (left / width, 1 - (y + _PIECE) / height), _PIECE / width, _PIECE / height,
            transform=figure.transFigure, facecolor=[c / 255 for c in color],
            hatch=_HATCH.get(name), linewidth=0,
        )  # fmt: skip
        figure.add_artist(piece)
        _write(figure, [name], left + _PIECE + 0.05, y + 0.02)
        left += _PIECE + 0.2 + 0.055 * len(name) + 0.15
