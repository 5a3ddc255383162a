"""An own vocabulary from a file: what it holds, and one clear line for each mistake."""

import pytest

from semimedref.errors import UserError
from semimedref.text.vocabulary import NOWHERE, names_file, vocabulary
from tests.text import kidneys


def test_a_file_holds_regions_in_its_order_with_boxes_and_first_wordings(tmp_path):
    words = vocabulary(kidneys.write(tmp_path))
    assert words.regions == tuple(kidneys.NAMES)
    assert words.boxes[4] == (0.8, 1.0, 0.35, 0.65)
    assert words.cells[0].phrase == "the left upper pole"
    assert words.sides == ("left", "right") and words.cells[4].side is None
    assert (words.fuzzy, words.organ) == (kidneys.FUZZY, None)


def test_no_vocabulary_has_no_regions():
    assert vocabulary(None) is NOWHERE and NOWHERE.regions == ()


def test_only_a_yaml_suffix_makes_a_file(tmp_path, monkeypatch):
    (tmp_path / "lungs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert vocabulary("lungs").organ == "lung"
    assert names_file("REGIONS.YML") and not names_file("lungs")


def changed(**region):
    """The file with another first region; None takes a key away."""
    whole = kidneys.content()
    first = whole["regions"][0] | region
    whole["regions"][0] = {k: v for k, v in first.items() if v is not None}
    return whole


def box(**shares):
    return {"top": 0.2, "bottom": 0.5, "left": 0.1, "right": 0.4} | shares


BAD = {
    "no name": ({k: v for k, v in kidneys.content().items() if k != "name"}, "'name' is missing"),
    "no regions": (kidneys.content() | {"regions": []}, "expected a list of regions"),
    "a strange key": (kidneys.content() | {"organ": "kidney"}, "'organ' is unknown.*fuzzy"),
    "a list": (["left"], "expected the keys name, fuzzy, regions"),
    "a number as fuzzy": (kidneys.content() | {"fuzzy": 4}, "fuzzy: found 4"),
    "no box": (changed(box=None), "region 1: the key 'box' is missing"),
    "no phrases": (changed(phrases=None), "region 1: the key 'phrases' is missing"),
    "a strange key of a region": (changed(colour="red"), "region 1: the key 'colour' is unknown"),
    "one phrase without a list": (changed(phrases="the left"), "expected a list of wordings"),
    "a yes that YAML turns into true": (changed(phrases=[True]), "phrases: found True.*quotes"),
    "a full stop": (changed(phrases=["the pole. left"]), r"without \. ! \? ;"),
    "a box outside": (changed(box=box(bottom=1.2)), r"0 <= top < bottom <= 1"),
    "a box upside down": (changed(box=box(top=0.6)), "0 <= top < bottom <= 1"),
    "a box without an edge": (changed(box={"top": 0.1}), "box: the key 'bottom' is missing"),
    "a box of words": (changed(box=box(top="half")), "expected four numbers"),
    "a side of another kind": (changed(side="top"), "side is 'top', expected left or right"),
    "two regions of one name": (changed(name="bladder"), "two regions are called 'bladder'"),
    "a phrase of two regions": (
        changed(phrases=["Left-Lower pole"]),
        "'the left lower pole' names two regions, 'upper left' and 'lower left'",
    ),
    "a fuzzy phrase inside a wording": (
        kidneys.content() | {"fuzzy": "left upper"},
        "'the left upper pole' should name 'upper left' and is read as no region",
    ),
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_one_clear_line(mistake, tmp_path):
    content, said = BAD[mistake]
    with pytest.raises(UserError, match=said) as caught:
        vocabulary(kidneys.write(tmp_path, content))
    assert "\n" not in str(caught.value) and "regions.yaml" in str(caught.value)


def test_what_is_no_yaml_and_what_is_not_there_are_told_apart(tmp_path):
    (tmp_path / "bad.yaml").write_text("name: [")
    with pytest.raises(UserError, match=r"bad\.yaml is no YAML") as caught:
        vocabulary(str(tmp_path / "bad.yaml"))
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"none\.yaml cannot be read.*lungs"):
        vocabulary(str(tmp_path / "none.yaml"))
