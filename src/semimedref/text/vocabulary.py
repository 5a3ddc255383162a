"""The regions that the sentences of a data set can name, in the order of its labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from semimedref.errors import UserError

UNK_POS = "[UNK_POS]"


class Box(NamedTuple):
    """A rectangle in relative image coordinates: 0 is the top or left edge, 1 the other one."""

    top: float
    bottom: float
    left: float
    right: float

    def pixels(self, height: int, width: int) -> tuple[int, int, int, int]:
        """First row, row after the last, first column, column after the last."""
        bounds = (self.top * height, self.bottom * height, self.left * width, self.right * width)
        top, bottom, left, right = (math.ceil(b - 1e-9) for b in bounds)
        return top, bottom, left, right

    def holds(self, y: float, x: float) -> bool:
        """Whether the point lies inside; the lower bounds belong to the box, the upper do not."""
        return self.top <= y < self.bottom and self.left <= x < self.right


@dataclass(frozen=True)
class Region:
    """One entry of the position label: its words, its place and the box that it stands for."""

    name: str
    phrase: str
    side: str | None  # None: the region lies on the midline
    level: str | None
    box: Box
    wordings: tuple[str, ...] = ()  # all that name it, where a grammar is nothing but their list


@dataclass(frozen=True)
class Vocabulary:
    """All regions in label order, and the phrase that says "somewhere" without naming any."""

    name: str
    cells: tuple[Region, ...]
    fuzzy: str
    organ: str | None = None  # the noun that closes a phrase in which levels of a side are joined

    @property
    def regions(self) -> tuple[str, ...]:
        """Region names in label order."""
        return tuple(cell.name for cell in self.cells)

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides in the order in which the labels and the sentences name them."""
        return tuple(dict.fromkeys(c.side for c in self.cells if c.side))

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels from top to bottom."""
        return tuple(dict.fromkeys(c.level for c in self.cells if c.level))

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The box of every region, in label order."""
        return tuple(cell.box for cell in self.cells)

    def multi_hot(self, regions: Iterable[int]) -> list[int]:
        """Region indices as a 0/1 label."""
        marked = set(regions)
        return [int(i in marked) for i in range(len(self.cells))]

    def indices(self, position: Sequence[int]) -> tuple[int, ...]:
        """A 0/1 label as region indices."""
        if len(position) != len(self.cells):
            raise ValueError(f"{self.name} has {len(self.cells)} regions, got {len(position)}")
        return tuple(i for i, on in enumerate(position) if on)

    def find(self, side: str, level: str) -> int:
        """The index of the region at this side and level."""
        return [(c.side, c.level) for c in self.cells].index((side, level))

    def region_at(self, y: float, x: float) -> int:
        """The region of a point in relative coordinates; where boxes overlap, the last one."""
        return max(i for i, cell in enumerate(self.cells) if cell.box.holds(y, x))

    def phrase(self, regions: Iterable[int], whole: str | None = None) -> str:
        """Name the regions in words, side by side where levels of one side can be joined.

        Args:
            regions: Region indices, in any order.
            whole: What stands for all levels of a side, such as "all"; None lists them.

        >>> LUNGS.phrase([5, 0, 2])
        'upper lower left lung and lower right lung'
        """
        marked = sorted(set(regions))
        if self.organ is None:
            return " and ".join(self.cells[i].phrase for i in marked)
        phrases = []
        for side in self.sides:
            levels = [str(c.level) for c in map(self.cells.__getitem__, marked) if c.side == side]
            if len(levels) == len(self.levels) and whole is not None:
                levels = [whole]
            if levels:
                phrases.append(f"{' '.join(levels)} {side} {self.organ}")
        return " and ".join(phrases)


def vocabulary(name: str | None) -> Vocabulary:
    """Look a vocabulary up by what data set options say: a name, a file, or None for no regions."""
    if name in _VOCABULARIES:
        return _VOCABULARIES[name]
    if name is not None and names_file(name):
        return _from_file(name)
    known = ", ".join(v for v in _VOCABULARIES if v)
    raise UserError(
        f"unknown position vocabulary {name!r}, expected one of: {known}, or a file of your own "
        "that ends in .yaml; set dataset.vocabulary"
    )


def names_file(name: str) -> bool:
    """Whether an option names a file with an own vocabulary, which decides results by its content.

    The words of the built-in vocabularies are never taken for files that happen to be called so.
    """
    return name.lower().endswith((".yaml", ".yml"))


@lru_cache(maxsize=16)  # read once: a file that is edited meanwhile must not change a running step
def _from_file(name: str) -> Vocabulary:
    from semimedref.text.vocabulary_file import read_vocabulary

    return read_vocabulary(Path(name).expanduser())


def _equal_parts(*names: str) -> list[tuple[str, float, float]]:
    return [(name, i / len(names), (i + 1) / len(names)) for i, name in enumerate(names)]


# "Left" is image-left in all data sets: the viewer's left, not the patient's.
LUNGS = Vocabulary(
    "lungs",
    cells=tuple(
        Region(f"{level} {side}", f"{level} {side} lung", side, level, Box(top, bottom, x0, x1))
        for side, x0, x1 in _equal_parts("left", "right")
        for level, top, bottom in _equal_parts("upper", "middle", "lower")
    ),
    fuzzy="a region of the lung",
    organ="lung",
)

QUADRANTS = Vocabulary(
    "quadrants",
    cells=(
        *(
            Region(
                f"{level}-{side}",
                f"the {level} {side} region of the image",
                side,
                level,
                Box(top, bottom, x0, x1),
            )
            for level, top, bottom in _equal_parts("top", "bottom")
            for side, x0, x1 in _equal_parts("left", "right")
        ),
        Region("center", "the center of the image", None, None, Box(0.25, 0.75, 0.25, 0.75)),
    ),
    fuzzy="a region of the image",
)

# What sentences without places have: every question about their regions has an empty answer.
NOWHERE = Vocabulary("none", cells=(), fuzzy="a region of the image")

_VOCABULARIES = {LUNGS.name: LUNGS, QUADRANTS.name: QUADRANTS, None: NOWHERE}
