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
    """Take the first unilateral test images: no picking by score."""
    predictor = Predictor(run)
    test = build(compose(["dataset=phantom"]), "dataset").split("test")
    unilateral = [i for i, text in enumerate(test.texts) if text.startswith("unilateral")]
    rows = []
    for i in unilateral[:2]:
        image, text = np.array(test.images[i]), test.texts[i]
        one, other = predictor(image, text), predictor(image, swap_sides(text))
        truth = np.array(test.masks[i]) > 0
        rows.append(Swap(image, text, one.mask, swap_sides(text), other.mask, truth))
    swap_strip(rows, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
