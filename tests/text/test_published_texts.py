"""The parser against the published texts, for those who have them: they are not in the project.

    SEMIMEDREF_TEXTS=FOLDER make test        (or pytest tests/text/test_published_texts.py -s)

FOLDER holds `qata_cov19/annotations.csv` (text_sgseg, text_lvit, position as six digits),
`texts/mosmed_plus_train.csv` (text) and `texts/posmed_brain_breast.csv` (answer, position). Every
disagreement goes into `build/text_report.md`.
"""

import csv
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from semimedref.augment.mixed_text import MixedText
from semimedref.text.position import parse
from semimedref.text.vocabulary import vocabulary as look_up
from tests.text.reports import LVIT, MOSMED_PLUS, SGSEG

_FOLDER = os.environ.get("SEMIMEDREF_TEXTS", "")
_REPORT = Path("build/text_report.md")
pytestmark = pytest.mark.skipif(not _FOLDER, reason="SEMIMEDREF_TEXTS=FOLDER names no texts")


def _rows(name: str) -> list[dict[str, str]]:
    with (Path(_FOLDER) / name).open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _report(title: str, rows: list[dict[str, str]], wrong: list[tuple[str, str, str]]) -> float:
    """Append to the report; returns the share of rows on which both agree."""
    agreement = 1 - len(wrong) / len(rows)
    lines = [f"# {title}: {len(rows) - len(wrong)} of {len(rows)} agree ({100 * agreement:.2f} %)"]
    for (text, expected, found), times in Counter(wrong).most_common():
        lines.append(f"- {times} x expected {expected}, parsed {found}: {text}")
    _REPORT.parent.mkdir(exist_ok=True)
    with _REPORT.open("a", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))
    print(lines[0])
    return agreement


def _lungs(text: str) -> str:
    return "".join(map(str, parse(text, "lungs")))


@pytest.mark.parametrize(("column", "least"), [("text_sgseg", 1.0), ("text_lvit", 0.994)])
def test_parser_agrees_with_the_published_labels_of_qata_cov19(column: str, least: float) -> None:
    """SGSeg's labels were made from its own captions; the original wording has typing errors."""
    rows = _rows("qata_cov19/annotations.csv")
    assert len(rows) == 9258
    wrong = [
        (row[column], row["position"], _lungs(row[column]))
        for row in rows
        if _lungs(row[column]) != row["position"]
    ]
    assert _report(f"QaTa-COV19, {column}", rows, wrong) >= least


def test_every_mosmed_text_parses_by_the_stated_rule() -> None:
    """A region counts only if side and level are named; "all" is three levels."""
    rows = _rows("texts/mosmed_plus_train.csv")
    assert len(rows) == 2183
    wrong = [
        (row["text"], _mosmed_rule(row["text"]), _lungs(row["text"]))
        for row in rows
        if _lungs(row["text"]) != _mosmed_rule(row["text"])
    ]
    assert _report("MosMedData+", rows, wrong) == 1
    assert sum(_lungs(row["text"]) == "000000" for row in rows) == 43


def _mosmed_rule(text: str) -> str:
    """A twin that only cuts at "left lung" and "right lung" and looks for the three levels."""
    marks = dict.fromkeys("LR", "000")
    for words, side in re.findall(r"([a-z ]*?)(left|right) lung", text.lower()):
        levels = ("upper", "middle", "lower")
        found = ["1" if re.search(rf"\b({level}|all)\b", words) else "0" for level in levels]
        key = side[0].upper()
        marks[key] = "".join(max(a, b) for a, b in zip(marks[key], found, strict=True))
    return marks["L"] + marks["R"]


def test_every_posmed_answer_of_brain_and_breast_names_a_zone() -> None:
    """Where the two differ the answer says only "center"."""
    rows = _rows("texts/posmed_brain_breast.csv")
    assert len(rows) == 3826
    assert all(any(parse(row["answer"], "quadrants")) for row in rows)
    names = ("top-left", "top-right", "bottom-left", "bottom-right", "center")
    wrong = []
    for row in rows:
        named = re.findall(r"(?:top|bottom) (?:left|right)", row["position"].lower())
        zones = {name.replace(" ", "-") for name in named} or {"center"}
        expected = [int(name in zones) for name in names]
        found = parse(row["answer"], "quadrants")
        if found != expected:
            wrong.append((row["answer"], str(expected), str(found)))
    assert _report("PosMed, brain and breast", rows, wrong) > 0.97


def _of_qata(column: str) -> list[tuple[str, tuple[int, ...]]]:
    rows = _rows("qata_cov19/annotations.csv")
    return [(row[column], tuple(map(int, row["position"]))) for row in rows]


def _of(name: str, column: str, vocabulary: str) -> list[tuple[str, tuple[int, ...]]]:
    texts = [row[column] for row in _rows(name)]
    return [(text, tuple(parse(text, vocabulary))) for text in texts]


@pytest.mark.parametrize(
    ("name", "read", "vocabulary", "writing"),
    [
        ("SGSeg", lambda: _of_qata("text_sgseg"), "lungs", SGSEG),
        ("LViT", lambda: _of_qata("text_lvit"), "lungs", LVIT),
        ("MosMedData+", lambda: _of("texts/mosmed_plus_train.csv", "text", "lungs"), "lungs",
         MOSMED_PLUS),
        ("PosMed", lambda: _of("texts/posmed_brain_breast.csv", "answer", "quadrants"),
         "quadrants", None),
    ],
)  # fmt: skip
def test_cells_of_every_pair_of_texts_are_said_truly(name, read, vocabulary, writing) -> None:
    """The sentence after an exchange of cells parses to the mixed label; a subset for each pair."""
    mixed = MixedText(vocabulary, writing, "donor", "sides", True)
    cells = len(look_up(vocabulary).cells)
    known, rng, pairs = list(dict.fromkeys(read())), random.Random(0), 0
    known = known[:: -(-len(known) // 600)]  # PosMed has 2,000; the others fewer than 600
    for own, ours in known:
        for given, theirs in known:
            bits = rng.randrange(1, 2**cells - 1)
            chosen = {k for k in range(cells) if bits >> k & 1}
            label = [theirs[k] if k in chosen else ours[k] for k in range(cells)]
            text = mixed.exchanged(own, given, (ours, theirs), chosen)
            assert (text is None) == (not any(label))
            if text is not None:
                assert parse(text, vocabulary) == label, (own, given, chosen, text)
                pairs += 1
    print(f"{name}: {len(known)} sentences with labels, {pairs} pairs said truly")
