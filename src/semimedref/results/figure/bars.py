"""Groups of bars with intervals, told apart by color and by hatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semimedref.results.figure import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_FULL = 0.8  # of the room of a group


def group(
    ax: Axes,
    values: Sequence[float],
    ends: Sequence[tuple[float, float]] | None,
    *,
    label: str,
    number: int,
    of: int,
) -> BarContainer:
    """The bars of one run or one score, the n-th of several beside each other."""
    width = _FULL / of
    at = [i + (number - (of - 1) / 2) * width for i in range(len(values))]
    drawn = ax.bar(at, values, width * 0.92, label=label, **style.bar_style(number))
    for x, pair in zip(at, ends or (), strict=False):
        ax.plot([x, x], pair, color=style.INK, lw=0.9, marker="_", markersize=3)
    return drawn


def name_groups(ax: Axes, names: Sequence[str], inches: float) -> None:
    """Names below the groups, wrapped to their room."""
    room = 0.92 * inches / len(names)
    labels = ["\n".join(_broken(name, room)) for name in names]
    ax.set_xticks(range(len(names)), labels)
    ax.set_xlim(-0.55, len(names) - 0.45)
    ax.grid(axis="y")


def _broken(name: str, room: float) -> list[str]:
    """The name in lines; a word that is too wide breaks after its last hyphen."""
    words = []
    for word in name.split():
        head, hyphen, tail = word.rpartition("-")
        wide = len(style.wrapped(word, room, size=style.SMALL)) > 1
        words += [head + hyphen, tail] if wide and head and tail else [word]
    return style.wrapped(" ".join(words), room, size=style.SMALL)
