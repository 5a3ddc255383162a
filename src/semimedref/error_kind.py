"""Name what is wrong with a predicted mask, so that errors can be looked for by kind.

The rule needs the counts of pixels; where lesions were counted too, or the masks are at hand, it
tells more kinds apart. The first sentence of ``KINDS`` that fits decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semimedref.metrics import dice

if TYPE_CHECKING:
    import numpy as np

GOOD_DICE = 0.7  # from here on an overlap is called good
HIT = 0.1  # share of the truth below which it counts as not found
TWICE = 1.5  # area, predicted over true, from which a mask is too large; its inverse: too small

KINDS = {
    "good": f"Dice of {100 * GOOD_DICE:.0f} or more, or rightly empty",
    "wrong side": "the marks lie on the side of the image that has no lesion",
    "missed lesion": f"under {100 * HIT:.0f} % of the truth is marked and little else is; where "
    "lesions are counted, also: one is not touched and more pixels are missed than false",
    "false lesion": "marks where there is nothing to find; where lesions are counted, also: a mark "
    "touches none of them and more pixels are false than missed",
    "wrong place": f"under {100 * HIT:.0f} % of the truth is marked, but much else is",
    "over-segmented": f"more than {TWICE:g} times the true area",
    "under-segmented": f"less than 1/{TWICE:g} of the true area",
    "inexact": "about the right place and area, but not the right pixels",
}


def error_kind(
    tp: int,
    fp: int,
    fn: int,
    *,
    missed: int = 0,
    false: int = 0,
    wrong_side: bool = False,
) -> str:
    """The kind of one prediction.

    Args:
        tp: true positive pixels.
        fp: false positive pixels.
        fn: false negative pixels.
        missed: lesions that no mark touches, where they were counted.
        false: marks that touch no lesion, where they were counted.
        wrong_side: what ``on_wrong_side`` says, where the masks are at hand.
    """
    truth, marked = tp + fn, tp + fp
    if dice(tp, fp, fn) >= GOOD_DICE:
        return "good"
    if wrong_side:
        return "wrong side"
    if truth == 0:
        return "false lesion"
    if tp < HIT * truth:
        return "missed lesion" if marked < truth / 2 else "wrong place"
    if missed and fn > fp:
        return "missed lesion"
    if false and fp > fn:
        return "false lesion"
    if marked > TWICE * truth:
        return "over-segmented"
    return "under-segmented" if marked * TWICE < truth else "inexact"


def kind_of_image(image: Mapping[Any, Any]) -> str:
    """The kind of a line of ``per_image.csv``, as text or as numbers."""
    lesions, found, false = (
        int(image.get(name) or 0) for name in ("lesions", "lesions_found", "lesions_false")
    )
    tp, fp, fn = (int(image[name]) for name in ("tp", "fp", "fn"))
    return error_kind(tp, fp, fn, missed=lesions - found, false=false)


def on_wrong_side(truth: np.ndarray, prediction: np.ndarray) -> bool:
    """Whether a truth on one side (H, W) was answered by marks that are mostly on the other."""
    middle = truth.shape[1] // 2
    left, right = int(truth[:, :middle].sum()), int(truth[:, middle:].sum())
    marks_left, marks_right = int(prediction[:, :middle].sum()), int(prediction[:, middle:].sum())
    # A lesion at the midline leaves a few pixels on the other side.
    if left < HIT * right:
        return marks_left > marks_right
    return right < HIT * left and marks_right > marks_left
