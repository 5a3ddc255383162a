"""Draw the README's strip from a run: one image, its sentence, and left and right swapped in it.

python docs/strip.py RUN docs/strip.png
"""

import sys
from pathlib import Path

import numpy as np

from semimedref import Predictor
from semimedref.config import build, compose
from semimedref.results.figures import Swap, swap_strip
from semimedref.text.caption import swap_sides


def main(run: str, out: str) -> None:
    """The first unilateral test image that shows a lesion at the swapped place; not by score."""
    predictor = Predictor(run)
    dataset = build(compose(["dataset=phantom"]), "dataset")
    test = dataset.split("test")
    shown = np.load(dataset.folder / "test_lesions.npy")
    chosen = [
        i
        for i, text in enumerate(test.texts)
        if text.startswith("unilateral") and _mirrored(test.positions[i], shown[i])
    ]
    rows = []
    for i in chosen[:1]:
        image, text = np.array(test.images[i]), test.texts[i]
        one, other = predictor(image, text), predictor(image, swap_sides(text))
        truth = np.array(test.masks[i]) > 0
        rows.append(Swap(image, text, one.mask, swap_sides(text), other.mask, truth))
    swap_strip(rows, Path(out))


def _mirrored(position: np.ndarray, lesions: np.ndarray) -> bool:
    """Whether each named region shows a lesion on the other side too."""
    third, half = lesions.shape[0] // 3, lesions.shape[1] // 2
    for region in np.flatnonzero(position):
        side, level = divmod((region + 3) % 6, 3)
        box = lesions[level * third : (level + 1) * third, side * half : (side + 1) * half]
        if box.sum() < 100:
            return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
