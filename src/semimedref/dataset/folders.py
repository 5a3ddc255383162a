"""All pictures below a root, found by name in any case, wherever a layout puts them."""

from __future__ import annotations

import filecmp
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from semimedref.dataset.walk import walk

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
_MASK_WORDS = {"mask", "masks", "label", "labels", "labelcol", "truth", "truths", "gt", "gts",
               "groundtruth", "groundtruths", "segmentation", "segmentations", "seg", "segs",
               "annotation", "annotations"}  # fmt: skip
_IMAGE_WORDS = {"image", "images", "img", "imgs", "frame", "frames", "picture", "pictures"}
_SPLIT_WORDS = {
    "train": "train", "training": "train",
    "val": "valid", "valid": "valid", "validation": "valid",
    "test": "test", "testing": "test",
}  # fmt: skip


def split_name(word: str) -> str | None:
    """Our name of a split for any of the usual ones; None if the word is none of them."""
    return _SPLIT_WORDS.get(word.strip().lower())


def split_of(name: str) -> str | None:
    """The split that a file or folder name speaks of, such as ``Train_Folder``.

    A name that speaks of several, such as ``train_val_test``, tells nothing.
    """
    found = {s for s in map(split_name, _words(name)) if s}
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class Found:
    """A file for a name, and other files for it."""

    path: Path | None
    rivals: tuple[Path, ...] = ()  # hold something else
    copies: tuple[Path, ...] = ()  # of a mask: not opened yet, hence copies or rivals
    elsewhere: str | None = None  # the split whose folder it was found in, if it is another one


class Folders:
    """The pictures of a data set, as images and masks by name."""

    def __init__(self, root: Path) -> None:
        self._files: dict[tuple[bool, str], list[tuple[str | None, Path]]] = defaultdict(list)
        for folder, _, names in walk(root):
            inside = folder.relative_to(root).parts
            in_masks = _holds_masks(inside)
            splits = [s for s in map(split_of, inside) if s]
            for name in names:
                small = PurePath(name.lower())
                path = folder / name
                if small.suffix in PICTURES and path.is_file():  # a link may lead nowhere
                    stem = small.stem
                    named_mask = stem.startswith("mask_") or stem.endswith("_mask")
                    key = (in_masks or named_mask, stem)
                    self._files[key].append((splits[-1] if splits else None, path))

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    def image(self, name: str, *, split: str, anywhere: bool = False) -> Found:
        """The image of that file name, in any spelling of its letters.

        Args:
            name: of the file, with or without folders before it.
            split: whose folders are looked into.
            anywhere: whether another split's folder will do, if no third one has the name.
        """
        return self._find([image_stem(name)], name, split, mask=False, anywhere=anywhere)

    def mask(self, name: str, *, split: str, anywhere: bool = False) -> Found:
        """The mask of the image of that file name; no mask is opened for it."""
        stem = image_stem(name)
        stems = [stem, f"mask_{stem}", f"{stem}_mask"]
        return self._find(stems, name, split, mask=True, anywhere=anywhere)

    def _find(
        self, stems: list[str], name: str, split: str, *, mask: bool, anywhere: bool
    ) -> Found:
        candidates = [entry for stem in stems for entry in self._files.get((mask, stem), ())]
        # The original QaTa-COV19 keeps validation images in the folder of the training images.
        for where in (split, None, *(("train",) if split == "valid" else ())):
            here = [path for its_split, path in candidates if its_split == where]
            if here:
                return _one_of(here, name, mask=mask)
        others = {its_split for its_split, _ in candidates}
        if anywhere and len(others) == 1:
            return _one_of(
                [path for _, path in candidates], name, mask=mask, elsewhere=others.pop()
            )
        return Found(None)


def image_stem(name: str) -> str:
    """The name of an image without folder, suffix, ``mask_`` and capital letters."""
    file = PurePath(re.split(r"[\\/]", name.strip())[-1].lower())
    stem = file.stem if file.suffix in PICTURES else file.name
    return stem.removeprefix("mask_")


def _one_of(paths: list[Path], name: str, *, mask: bool, elsewhere: str | None = None) -> Found:
    """One of several files; byte-identical copies are one file, others are rivals."""
    suffix = PurePath(name.lower()).suffix
    same = [p for p in paths if p.suffix.lower() == suffix] or paths
    first, *others = sorted(same)
    if mask:  # perhaps of an unlabeled image, and then never opened: whoever needs it compares
        return Found(first, copies=tuple(others), elsewhere=elsewhere)
    rivals = (p for p in others if not filecmp.cmp(first, p, shallow=False))
    return Found(first, tuple(rivals), elsewhere=elsewhere)


def _holds_masks(folders: Sequence[str]) -> bool:
    """Whether the deepest folder that speaks of images or masks, and not of both, says masks."""
    for folder in reversed(folders):
        words = set(_words(folder))
        masks, images = bool(_MASK_WORDS & words), bool(_IMAGE_WORDS & words)
        if masks != images:
            return masks
    return False


def _words(name: str) -> list[str]:
    return [w for w in re.split(r"[^a-z0-9]+", name.lower()) if w]
