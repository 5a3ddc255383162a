"""Controlled text interventions: what does a trained run lose with the positional words?

The image, the weights and the threshold stay; only the sentence changes (paper, supplement,
"Positional-Language Analysis").
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from semimedref import metrics
from semimedref.analysis.bootstrap import Floats, interval, mean_interval
from semimedref.analysis.finding import Finding, percent
from semimedref.results.figure import interventions as drawing
from semimedref.results.figure.measured import Measured
from semimedref.results.significance import global_dice
from semimedref.text import spans
from semimedref.text.vocabulary import UNK_POS

if TYPE_CHECKING:
    from semimedref.analysis.subject import Subject
    from semimedref.results.figure.contract import Figure

ORIGINAL = "original"
CONTROL = "non-position"
_WORD = re.compile(r"\w+")


def mask_other_words(text: str, vocabulary: str, *, key: str) -> str:
    """The matched control: as many words masked as the phrases have, all of them elsewhere.

    Which ones is drawn from the key and the sentence, so it is the same at every call. A sentence
    with too few other words loses all of them.
    """
    outside = other_words(text, vocabulary)
    count = min(positional_words(text, vocabulary), len(outside))
    for start, end in sorted(random.Random(f"{key}|{text}").sample(outside, count), reverse=True):
        text = text[:start] + UNK_POS + text[end:]
    return text


def other_words(text: str, vocabulary: str) -> list[tuple[int, int]]:
    """Where the words stand that belong to no positional phrase, empty slots included."""
    places = [(s.start, s.end) for s in spans.find(text, vocabulary)]
    words = [m.span() for m in _WORD.finditer(text)]
    return [word for word in words if not any(_overlap(word, place) for place in places)]


def positional_words(text: str, vocabulary: str) -> int:
    """How many words stand in positional phrases."""
    places = [(s.start, s.end) for s in spans.phrases(text, vocabulary)]
    words = [m.span() for m in _WORD.finditer(text)]
    return sum(any(_overlap(word, place) for place in places) for word in words)


def arms(vocabulary: str) -> dict[str, Callable[[str, str], str]]:
    """Every intervention by name: (sentence, key of the image) -> sentence."""
    return {
        "mask": lambda text, _: spans.drop(text, vocabulary),
        "fuzz": lambda text, _: spans.fuzz(text, vocabulary),
        "remove": lambda text, _: spans.remove(text, vocabulary),
        CONTROL: lambda text, key: mask_other_words(text, vocabulary, key=key),
    }


def analyze(subject: Subject) -> Finding:
    """Dice, Dice drop and prediction inconsistency of every intervention."""
    edits, ids = arms(subject.vocabulary), subject.pool.split.ids
    truth: dict[str, list[np.ndarray]] = {name: [] for name in (ORIGINAL, *edits)}
    before: dict[str, list[np.ndarray]] = {name: [] for name in edits}
    for place, batch in subject.batches("interventions"):
        first = subject.predict(batch)
        mask = batch.mask.to(first.device)
        truth[ORIGINAL].append(_counts(first, mask))
        for name, edit in edits.items():
            pairs = zip(batch.sentences, ids[place], strict=True)
            other = subject.predict(batch, [edit(text, key) for text, key in pairs])
            truth[name].append(_counts(other, mask))
            before[name].append(_counts(other, first))
    tables = {name: np.concatenate(parts).astype(float) for name, parts in truth.items()}
    agreement = {name: np.concatenate(parts).astype(float) for name, parts in before.items()}
    numbers = summarize(tables, agreement, subject.patients)
    return _finding(subject, numbers, tables, agreement)


def summarize(
    tables: dict[str, Floats], agreement: dict[str, Floats], patients: Sequence[str]
) -> dict[str, object]:
    """Scores from the counts (N, 3) against the truth and against the original prediction."""
    original = tables[ORIGINAL]
    per_image = global_dice(original)
    found = {}
    for name, overlap in agreement.items():
        table = tables[name]
        drop, change = per_image - global_dice(table), 1 - global_dice(overlap)
        found[name] = {
            "dice": float(global_dice(table.sum(0))),
            "drop": float(global_dice(original.sum(0)) - global_dice(table.sum(0))),
            "drop_ci": interval(np.concatenate([original, table], 1), patients, _difference),
            "dice_per_image": float(global_dice(table).mean()),
            "drop_per_image": float(drop.mean()),
            "drop_per_image_ci": mean_interval(drop, patients),
            "inconsistency": float(change.mean()),
            "inconsistency_ci": mean_interval(change, patients),
        }
    return {
        "images": len(original),
        "patients": len(set(patients)),
        "dice": float(global_dice(original.sum(0))),
        "dice_per_image": float(per_image.mean()),
        "interventions": found,
    }


def _difference(sums: Floats) -> Floats:
    return global_dice(sums[:, :3]) - global_dice(sums[:, 3:])


def _counts(prediction: object, mask: object) -> np.ndarray:
    return metrics.counts(prediction.float(), mask.float(), threshold=0.5).cpu().numpy()


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _finding(
    subject: Subject,
    numbers: dict[str, object],
    tables: dict[str, Floats],
    agreement: dict[str, Floats],
) -> Finding:
    head = ("text", "Dice", "drop [95 % CI]", "Dice per image", "drop per image",
            "inconsistency")  # fmt: skip
    lines = [head, (ORIGINAL, percent(numbers["dice"]), "", percent(numbers["dice_per_image"]),
                    "", "")]  # fmt: skip
    for name, row in numbers["interventions"].items():
        lines.append((
            name, percent(row["dice"]), percent(row["drop"], row["drop_ci"]),
            percent(row["dice_per_image"]),
            percent(row["drop_per_image"], row["drop_per_image_ci"]),
            percent(row["inconsistency"], row["inconsistency_ci"]),
        ))  # fmt: skip
    short = sum(
        positional_words(text, subject.vocabulary) > len(other_words(text, subject.vocabulary))
        for text in subject.pool.split.texts
    )
    numbers |= {"control_short": short}
    pictures = {}
    if subject.parts.may_show():
        pictures["example"] = partial(_example, subject, tables)
    return Finding(
        title=f"Text interventions, {subject.split}, {numbers['images']} images of "
        f"{numbers['patients']} patients, {subject.weights}, percent",
        numbers=numbers,
        lines=lines,
        notes=(
            "inconsistency: 100 minus the mean Dice between the predictions for both sentences",
            f"control: {short} sentences have fewer other words than positional ones",
        ),
        figure=drawing.interventions([Measured(subject.name, numbers, subject.folder.name)]),
        pictures=pictures,
        cases=_cases(subject, tables, agreement),
    )


def _cases(
    subject: Subject, tables: dict[str, Floats], agreement: dict[str, Floats]
) -> list[list[object]]:
    split = subject.pool.split
    scores = [global_dice(table) for table in tables.values()]
    changes = [1 - global_dice(table) for table in agreement.values()]
    head = ["id", "patient", *(f"dice_{n}" for n in tables)]
    lines: list[list[object]] = [[*head, *(f"inconsistency_{n}" for n in agreement)]]
    for i, (case, patient) in enumerate(zip(split.ids, split.patients, strict=True)):
        values = [f"{column[i]:.6f}" for column in (*scores, *changes)]
        lines.append([case, patient, *values])
    return lines


def _example(subject: Subject, tables: dict[str, Floats]) -> Figure:
    """The image whose loss by removal is the median one, read in every way."""
    loss = global_dice(tables[ORIGINAL]) - global_dice(tables["remove"])
    at = int(np.argsort(loss, kind="stable")[len(loss) // 2])
    batch = subject.pool.fetch([at])
    text, key = batch.sentences[0], subject.pool.split.ids[at]
    texts = {ORIGINAL: text}
    texts |= {name: edit(text, key) for name, edit in arms(subject.vocabulary).items()}
    return drawing.readings(
        image=batch.image[0, 0].float().numpy(),
        truth=batch.mask[0, 0].numpy() > 0,
        predictions={n: subject.predict(batch, [t])[0, 0].cpu().numpy() for n, t in texts.items()},
        texts=texts,
        dice={name: float(global_dice(table[at])) for name, table in tables.items()},
        source=subject.folder.name,
    )
