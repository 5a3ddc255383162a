"""The size of pictures: published sizes are not required, but a report should say another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from semimedref.dataset.case import SPLITS, Annotation, Problem
from semimedref.dataset.pixels import PixelError, picture_size
from semimedref.dataset.published import Published

Size = tuple[int, int]  # height, width


def another_size(annotation: Annotation, published: Published | None) -> str | None:
    """A sentence, if the first picture of a split has not the published size."""
    if published is None or published.side is None:
        return None
    first = [next((c.image for c in annotation.split(s) if c.image), None) for s in SPLITS]
    for path in filter(None, first):
        try:
            size = picture_size(path)
        except PixelError:
            continue  # another check says so
        if size != (published.side, published.side):
            side = published.side
            return f"pictures of {in_words(size)} pixels, published {side} × {side}"
    return None


def check_sizes(sizes: Mapping[str, Size], published: Published | None) -> Iterator[Problem]:
    """Pictures of another size than the published one, and of several sizes; both are allowed.

    Args:
        sizes: by the id of a case.
        published: with the published side, if there is one.
    """
    side = published.side if published else None
    for case, size in sizes.items():
        if side is not None and size != (side, side):
            kind = f"image is not {side} × {side} as published"
            yield Problem(kind, f"{case} ({in_words(size)})", _RESIZED, "note")
    counts = Counter(sizes.values())
    if len(counts) > 1:
        for size, images in counts.most_common():
            kind = "images of several sizes"
            yield Problem(kind, f"{in_words(size)}: {images} images", _RESIZED, "note")


_RESIZED = "nothing to do: every image is resized to the run's side"


def in_words(size: Size) -> str:
    """Width × height, as people say it."""
    return f"{size[1]} × {size[0]}"
