"""Left and right exchanged in the sentence: does the predicted mass cross the midline?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semimedref.analysis.bootstrap import mean_interval
from semimedref.analysis.finding import Finding, percent
from semimedref.analysis.regions import region_masks
from semimedref.errors import UserError
from semimedref.results.figure import swap as drawing
from semimedref.text.caption import swap_sides
from semimedref.text.position import parse
from semimedref.text.spans import laterality
from semimedref.text.vocabulary import vocabulary as look_up

if TYPE_CHECKING:
    from semimedref.analysis.subject import Subject
    from semimedref.results.figure.contract import Figure

_EXAMPLES = 3
_OTHER = {"left": "right", "right": "left"}


def named_side(text: str, vocabulary: str) -> str | None:
    """The one side that a sentence names, if the swapped sentence names the other one."""
    side = laterality(parse(text, vocabulary), vocabulary)
    if side not in _OTHER:
        return None
    swapped = laterality(parse(swap_sides(text), vocabulary), vocabulary)
    return side if swapped == _OTHER[side] else None


def side_masses(masks: np.ndarray, vocabulary: str) -> np.ndarray:
    """Foreground pixels on the left and on the right (B, 2) of masks (B, H, W)."""
    cells = look_up(vocabulary).cells
    boxes = region_masks(vocabulary, *masks.shape[1:])  # (K, H, W)
    halves = [
        np.any([box for box, c in zip(boxes, cells, strict=True) if c.side == side], axis=0)
        for side in _OTHER
    ]
    return np.stack([(masks & half).sum((1, 2)) for half in halves], axis=1)


def summarize(
    sides: Sequence[str], before: np.ndarray, after: np.ndarray, patients: Sequence[str]
) -> dict[str, object]:
    """Shares over unilateral cases; without foreground, or half and half, nothing crosses.

    Args:
        sides: left or right, what each sentence names.
        before: masses (N, 2) for the sentence, left and right.
        after: masses (N, 2) for the swapped sentence.
        patients: of every case.
    """
    named = np.array([-1 if side == "left" else 1 for side in sides])
    first, second = (np.sign(m[:, 1].astype(np.int64) - m[:, 0]) for m in (before, after))
    crosses = (first * second == -1).astype(float)
    follows = ((first == named) & (second == -named)).astype(float)
    return {
        "cases": len(named),
        "patients": len(set(patients)),
        "crosses": float(crosses.mean()),
        "crosses_ci": mean_interval(crosses, patients),
        "follows": float(follows.mean()),
        "follows_ci": mean_interval(follows, patients),
        "on_named_side": float((first == named).mean()),
        "on_named_side_swapped": float((second == -named).mean()),
        "empty": float((before.sum(1) == 0).mean()),
        "empty_swapped": float((after.sum(1) == 0).mean()),
    }


def analyze(subject: Subject) -> Finding:
    """Share of unilateral cases whose predicted mass changes its side with the words."""
    sides = [named_side(text, subject.vocabulary) for text in subject.pool.split.texts]
    if not any(sides):
        raise UserError(
            f"split={subject.split} has no sentence that names one side only: there is nothing to "
            "swap"
        )
    before, after = [], []
    for _, batch in subject.batches("swap"):
        for out, texts in ((before, None), (after, [swap_sides(t) for t in batch.sentences])):
            masks = subject.predict(batch, texts)[:, 0].cpu().numpy()
            out.append(side_masses(masks, subject.vocabulary))
    chosen = [i for i, side in enumerate(sides) if side]
    masses = [np.concatenate(m)[chosen] for m in (before, after)]
    named = [sides[i] for i in chosen]
    numbers = summarize(named, *masses, [subject.patients[i] for i in chosen])
    return _finding(subject, numbers | {"images": len(sides)}, chosen, named, masses)


def _finding(
    subject: Subject,
    numbers: dict[str, object],
    chosen: list[int],
    named: list[str],
    masses: list[np.ndarray],
) -> Finding:
    lines = [
        ("share of the unilateral cases", "percent [95 % CI]"),
        ("mass crosses the midline", percent(numbers["crosses"], numbers["crosses_ci"])),
        ("… from the named side to the other", percent(numbers["follows"], numbers["follows_ci"])),
        ("mass on the named side, sentence", percent(numbers["on_named_side"])),
        ("mass on the named side, swapped", percent(numbers["on_named_side_swapped"])),
        ("nothing predicted, sentence", percent(numbers["empty"])),
        ("nothing predicted, swapped", percent(numbers["empty_swapped"])),
    ]
    split = subject.pool.split
    cases: list[list[object]] = [
        ["id", "patient", "side", "left", "right", "left_swapped", "right_swapped"]
    ]
    for k, i in enumerate(chosen):
        counts = [int(v) for m in masses for v in m[k]]
        cases.append([split.ids[i], split.patients[i], named[k], *counts])
    pictures = {}
    if subject.parts.may_show():
        pictures["examples"] = partial(_examples, subject, chosen[:_EXAMPLES])
    return Finding(
        title=f"Left and right swapped, {subject.split}, {len(chosen)} unilateral cases of "
        f"{numbers['images']} images, {subject.weights}",
        numbers=numbers,
        lines=lines,
        notes=("mass: predicted foreground pixels; it is where more than half of them are",),
        figure=drawing.swap(numbers, drawing.Masses(named, *masses), source=subject.folder.name),
        pictures=pictures,
        cases=cases,
    )


def _examples(subject: Subject, chosen: list[int]) -> Figure:
    """The first unilateral cases, not chosen by score."""
    cases = []
    for i in chosen:
        batch = subject.pool.fetch([i])
        text = batch.sentences[0]
        one, other = (
            subject.predict(batch, [t])[0, 0].cpu().numpy() for t in (text, swap_sides(text))
        )
        image = np.clip(np.round(batch.image[0, 0].float().numpy()), 0, 255).astype(np.uint8)
        truth = batch.mask[0, 0].numpy() > 0
        case, texts = subject.pool.split.ids[i], (text, swap_sides(text))
        cases.append(drawing.Swapped(case, image, truth, texts, (one, other)))
    return drawing.examples(cases, source=subject.folder.name)
