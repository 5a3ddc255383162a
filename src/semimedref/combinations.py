"""Which method, augmentation and alignment go together: senseless ones are refused early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from semimedref.errors import UserError
from semimedref.text.vocabulary import Vocabulary
from semimedref.text.vocabulary import vocabulary as look_up

_CURES = "choose method=teacher_student"


def check_combination(plain: dict[str, Any]) -> None:
    """Refuse a resolved configuration with a part that would silently do nothing, or lie."""
    for problem in (*_unused(plain), *_alone(plain), *_placeless(plain), *_mirrored(plain)):
        raise UserError(problem)


def can_be_mirrored(words: Vocabulary) -> bool:
    """Whether a flipped image has the same regions, so that exchanged words name the truth."""
    boxes = {tuple(round(x, 6) for x in box) for box in words.boxes}
    flipped = (box._replace(left=1 - box.right, right=1 - box.left) for box in words.boxes)
    return {tuple(round(x, 6) for x in box) for box in flipped} == boxes


def _unused(plain: dict[str, Any]) -> Iterator[str]:
    """Parts that were chosen and that the method never sees."""
    method, align, augment = plain["method"], plain["align"], plain["augment"]
    name = _word(method)
    if align and not _holds(method, align):
        yield (
            f"align={_word(align)} does nothing with method={name}, which has no contrastive term: "
            f"{_CURES} or align=none"
        )
    for key, does in (("mixer", "mixes samples"), ("words", "edits sentences")):
        part = augment.get(key)
        if part and not _holds(method, part):
            yield (
                f"an augment that {does} ({_word(part)}) does nothing with method={name}, which "
                f"has no strong view: {_CURES} or augment=none"
            )
    if plain["preset"]["labeled_view"] == "strong":
        if method["views"]["labeled_view"] != "strong":
            yield f"preset.labeled_view=strong does nothing with method={name}: {_CURES}"
        if not augment["jitter"] and not augment["blur"]:
            yield (
                "preset.labeled_view=strong does nothing without jitter and blur: "
                "choose augment=weak_strong or preset.labeled_view=weak"
            )


def _alone(plain: dict[str, Any]) -> Iterator[str]:
    """Parts that compare or mix samples, without a second one."""
    if plain["trainer"]["batch_size"] != 1:
        return
    mixer = plain["augment"].get("mixer") or {}
    if plain["align"] or "patch" in mixer or "area" in mixer:
        part = _word(plain["align"] or mixer)
        yield f"{part} needs other samples: set trainer.batch_size to 2 or more, found 1"


def _placeless(plain: dict[str, Any]) -> Iterator[str]:
    """Parts that read positions, with sentences that name none."""
    dataset = plain["dataset"]
    if not dataset.get("vocabulary"):
        for part in _parts(plain["method"]):
            if part.get("vocabulary", "") is None or _word(part) in ("pacl", "spc"):
                yield (
                    f"{_word(part)} needs positions, but dataset={dataset['name']} has no position "
                    "vocabulary: choose augment=weak_strong and align=none or clip"
                )
    elif look_up(dataset["vocabulary"]).organ and not dataset.get("writing"):
        for part in _parts(plain["method"]):
            if "writing" in part:
                yield (
                    f"{_word(part)} needs dataset.writing, how the reports of "
                    f"dataset={dataset['name']} count: set it in the option file of the data set"
                )


def _mirrored(plain: dict[str, Any]) -> Iterator[str]:
    """Flips, where they would make a sentence or a label untrue."""
    words = plain["dataset"].get("vocabulary")
    if "spc" not in [_word(part) for part in _parts(plain["method"])]:
        return
    if words and not can_be_mirrored(look_up(words)):
        yield (
            f"augment=spc mirrors images, but the regions of dataset.vocabulary={words} have no "
            "mirror images: choose another augment"
        )
    if _word(plain["method"]) == "ispg":
        yield (
            "method=ispg augment=spc: a mirrored image no longer has the positions that the "
            "predictor is to learn; choose another augment, e.g. augment=semi_medref"
        )


def _word(part: dict[str, Any]) -> str:
    """The option's word for a part: the module of its class."""
    return str(part["_target_"]).split(".")[-2]


def _parts(node: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - plain JSON values
    """Every option with a class in a configuration, at any depth."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield node
        for value in node.values():
            yield from _parts(value)


def _holds(node: Any, part: dict[str, Any]) -> bool:  # noqa: ANN401 - plain JSON values
    return any(found == part for found in _parts(node))
