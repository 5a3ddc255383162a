"""Which method, model, augmentation and alignment go together: senseless ones are refused early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from semimedref.errors import UserError
from semimedref.text.caption import swap_sides
from semimedref.text.vocabulary import Region, Vocabulary
from semimedref.text.vocabulary import vocabulary as look_up
from semimedref.text.wordings import plain as plain_words

_CURES = "choose method=teacher_student"
_WORDLESS = ("unet", "plain_unet", "mean_mask")  # models that read nothing
_COUNTED = ("text_atlas", "mean_mask")  # models without parameters
_TRAINING = ("supervised", "teacher_student", "ispg", "mean_teacher", "fixmatch", "cps", "unimatch",
             "textmoe", "semires", "tevid_recon", "lvit_epi", "textmatch",
             "rar", "dusss", "amvlm")  # fmt: skip


def check_combination(plain: dict[str, Any]) -> None:
    """Refuse a resolved configuration with a part that would silently do nothing, or lie."""
    checks = (_counted, _unused, _wordless, _alone, _placeless, _mirrored)
    for problem in (line for check in checks for line in check(plain)):
        raise UserError(problem)


def can_be_mirrored(words: Vocabulary) -> bool:
    """Whether a flipped image has the same regions, and exchanged words name the truth."""
    named: dict[tuple[float, ...], set[str]] = {}
    for cell in words.cells:
        box = tuple(round(x, 6) for x in cell.box)
        named.setdefault(box, set()).update(_wordings(cell))
    for cell in words.cells:
        flipped = cell.box._replace(left=1 - cell.box.right, right=1 - cell.box.left)
        there = named.get(tuple(round(x, 6) for x in flipped), set())
        if not {swap_sides(wording) for wording in _wordings(cell)} <= there:
            return False
    return True


def _counted(plain: dict[str, Any]) -> Iterator[str]:
    """Atlases, which have nothing to train, and the method that counts instead of training."""
    method, model = _word(plain["method"]), _model(plain)
    if model in _COUNTED and method in _TRAINING:
        yield (
            f"model={model} has nothing to train, which method={method} would do: "
            "choose method=atlas trainer=atlas"
        )
    if method == "atlas" and model not in _COUNTED:
        yield (
            f"method=atlas counts masks and would not train model={model}: choose "
            f"model={' or model='.join(_COUNTED)}, or method=supervised"
        )
    if model == "text_atlas" and not plain["dataset"].get("vocabulary"):
        yield (
            f"model=text_atlas needs positions, but dataset={plain['dataset']['name']} has no "
            "position vocabulary: choose model=mean_mask"
        )


def _wordless(plain: dict[str, Any]) -> Iterator[str]:
    """Parts that act on sentences, with a model that reads none."""
    method, model = plain["method"], _model(plain)
    if model not in _WORDLESS:
        return
    if plain["align"]:
        yield (
            f"align={_word(plain['align'])} compares images with sentences, and model={model} "
            "reads none: choose align=none"
        )
    if plain["augment"].get("words"):
        yield (
            f"an augment that edits sentences ({_word(plain['augment']['words'])}) does nothing "
            f"with model={model}, which reads none: choose augment=weak_strong"
        )
    if _word(method) == "lvit_epi":
        yield (
            f"method=lvit_epi compares sentences, and model={model} reads none: choose another "
            "model, e.g. model=lvit"
        )
    if _word(method) == "ispg":
        yield (
            f"method=ispg adds positions to the words, and model={model} reads none: {_CURES} or "
            "another model"
        )


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
        if method.get("views", {}).get("labeled_view") != "strong":
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
            f"augment=spc mirrors images and exchanges left and right, but the regions of "
            f"dataset.vocabulary={words} have no such mirror images: choose another augment"
        )
    if _word(plain["method"]) == "ispg":
        yield (
            "method=ispg augment=spc: a mirrored image no longer has the positions that the "
            "predictor is to learn; choose another augment, e.g. augment=semi_medref"
        )


def _wordings(cell: Region) -> set[str]:
    return {plain_words(wording) for wording in cell.wordings or (cell.phrase,)}


def _word(part: dict[str, Any]) -> str:
    """The option's word for a part: the module of its class."""
    return str(part["_target_"]).split(".")[-2]


def _model(plain: dict[str, Any]) -> str | None:
    """The option's word for the model that the method uses, if it says so in the usual place."""
    model = plain["method"].get("model") or {}
    return _word(model) if "_target_" in model else None


def _parts(node: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - plain JSON values
    """Every option with a class in a configuration, at any depth."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield node
        for value in node.values():
            yield from _parts(value)


def _holds(node: Any, part: dict[str, Any]) -> bool:  # noqa: ANN401 - plain JSON values
    return any(found == part for found in _parts(node))
