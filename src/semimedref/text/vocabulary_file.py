"""An own position vocabulary from a YAML file; every mistake in it is one clear line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from semimedref.errors import UserError
from semimedref.text import wordings
from semimedref.text.span import added_sentence
from semimedref.text.vocabulary import Box, Region, Vocabulary

_FILE = ("name", "fuzzy", "regions")
_REGION = ("name", "phrases", "box")
_OPTIONAL = ("side", "level")
_BOX = Box._fields
_SIDES = ("left", "right")
_PAGE = "docs/own_data.md shows a complete file"


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a file, refused if a sentence could be read in two ways."""
    content = _mapping(_yaml(path), str(path), required=_FILE)
    regions = content["regions"]
    if not isinstance(regions, list) or not regions:
        raise UserError(f"{path}: regions is {regions!r}, expected a list of regions; {_PAGE}")
    cells = [_region(node, f"{path}, region {i}") for i, node in enumerate(regions, start=1)]
    vocabulary = Vocabulary(
        name=_words(content["name"], f"{path}: name"),
        cells=tuple(cells),
        fuzzy=_words(content["fuzzy"], f"{path}: fuzzy"),
    )
    _refuse_ambiguous(vocabulary, path)
    return vocabulary


def _yaml(path: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"dataset.vocabulary={path} cannot be read ({error.strerror}): expected lungs, "
            "quadrants, or a YAML file of your own"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        detail = " ".join(str(error).split())
        raise UserError(f"{path} is no YAML ({detail}); {_PAGE}") from error


def _region(node: object, where: str) -> Region:
    content = _mapping(node, where, required=_REGION, optional=_OPTIONAL)
    phrases = content["phrases"]
    if not isinstance(phrases, list) or not phrases:
        raise UserError(f"{where}: phrases is {phrases!r}, expected a list of wordings; {_PAGE}")
    said = tuple(_words(p, f"{where}: phrases") for p in phrases)
    side, level = content.get("side"), content.get("level")
    if side is not None and side not in _SIDES:
        raise UserError(
            f"{where}: side is {side!r}, expected {' or '.join(_SIDES)} (of the image), or no such "
            "line for a region on neither side"
        )
    return Region(
        name=_words(content["name"], f"{where}: name"),
        phrase=said[0],
        side=None if side is None else str(side),
        level=None if level is None else _words(level, f"{where}: level"),
        box=_box(content["box"], where),
        wordings=said,
    )


def _box(node: object, where: str) -> Box:
    content = _mapping(node, f"{where}: box", required=_BOX)
    given = [content[key] for key in _BOX]
    shares = [float(x) for x in given if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(shares) != len(_BOX):
        raise UserError(f"{where}: box is {node}, expected four numbers")
    box = Box(*shares)
    if not (0 <= box.top < box.bottom <= 1 and 0 <= box.left < box.right <= 1):
        raise UserError(
            f"{where}: box is {node}, expected shares of the image with "
            "0 <= top < bottom <= 1 and 0 <= left < right <= 1"
        )
    return box


def _mapping(
    node: object, where: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, object]:
    known = (*required, *optional)
    if not isinstance(node, dict):
        raise UserError(f"{where} is {node!r}, expected the keys {', '.join(known)}; {_PAGE}")
    unknown = [key for key in node if key not in known]
    if unknown:
        raise UserError(f"{where}: the key {unknown[0]!r} is unknown, expected {', '.join(known)}")
    missing = [key for key in required if key not in node]
    if missing:
        raise UserError(f"{where}: the key {missing[0]!r} is missing, expected {', '.join(known)}")
    return node


def _words(value: object, where: str) -> str:
    """Words that a sentence can hold; YAML reads an unquoted ``no`` or ``4`` as something else."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text or not (text[0].isalnum() and text[-1].isalnum()) or re.search(r"[.!?;]", text):
        raise UserError(
            f"{where}: found {value!r}, expected words that begin and end in a letter or digit, "
            "without . ! ? ; (in quotes if YAML takes them for a number, or for yes and no)"
        )
    return text


def _refuse_ambiguous(vocabulary: Vocabulary, path: Path) -> None:
    owner: dict[str, str] = {}
    for cell in vocabulary.cells:
        if vocabulary.regions.count(cell.name) > 1:
            raise UserError(f"{path}: two regions are called {cell.name!r}, expected one of a name")
        for wording in cell.wordings:
            other = owner.setdefault(wordings.plain(wording), cell.name)
            if other != cell.name:
                raise UserError(
                    f"{path}: the phrase {wording!r} names two regions, {other!r} and "
                    f"{cell.name!r}; expected every phrase in one region only"
                )
    for i, cell in enumerate(vocabulary.cells):
        # What is read here is what T-PatchMix writes; the fuzzy phrase may hide a wording.
        for text in (*cell.wordings, *map(added_sentence, cell.wordings)):
            read = {r for span in wordings.find(text, vocabulary) for r in span.regions}
            if read != {i}:
                names = ", ".join(repr(vocabulary.cells[r].name) for r in sorted(read))
                raise UserError(
                    f"{path}: {text!r} should name {cell.name!r} and is read as "
                    f"{names or 'no region'}; change this phrase, another one or `fuzzy`"
                )
