import itertools

import pytest
from hypothesis import given

from semimedref.errors import UserError
from semimedref.text.caption import lung_caption
from semimedref.text.position import find, parse, parse_slots_as_whole
from tests.text.reports import captions, glued, lvit_reports, misspelt, mosmed_reports, quick

BILATERAL = "Bilateral pulmonary infection, two infected areas, "
UNILATERAL = "Unilateral pulmonary infection, one infected area, "


def label(text):
    return "".join(map(str, parse(text, "lungs")))


@pytest.mark.parametrize("q", [q for q in itertools.product((0, 1), repeat=6) if any(q)])
def test_every_caption_parses_to_its_label(q):
    assert parse(lung_caption(q), "lungs") == list(q)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("all left lung and middle lower right lung.", "111011"),
        ("lower left lung and upper middle lower right lung.", "001111"),
        ("all left lung and upper mmiddle lower right lung.", "111111"),
        ("upper lower left lung and upper middle lowerl right lung.", "101111"),
        ("higher middle left lung and higher middle lower right lung.", "110111"),
        ("lowerall left lung and all right lung.", "111111"),
        ("upper left lung and all lower right lung.", "100111"),
        ("lower upper left lung and lower middle right lung.", "101011"),
        ("middle left lung andupper right lung.", "010100"),
        ("all left lung and lupper ower right lung.", "111101"),
        ("upper left lung and rlower ight lung.", "100001"),
        ("middle left lung and uooer middle right lung.", "010110"),
        ("lower eft lung and all right lung.(wait", "001111"),
        ("upper lower left and upper right lung", "101100"),
        ("Lower  Left lung and  LOWER right lung .", "001001"),
        ("left lower lung and right upper lung.", "001100"),
        ("lower left lung, lower right lung.", "001001"),
        ("lower left all right lung.", "001111"),
    ],
)
def test_bilateral_reports_are_read_through_their_errors(place, expected):
    assert label(BILATERAL + place) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("upper lower leflung.", "101000"),
        ("middle rught lung.", "000010"),
        ("upper rightlung.", "000100"),
        ("all right ung.", "000111"),
        ("iddle left lung.", "010000"),
        ("middle lower right right lung.", "000011"),
        ("all left and upper middle left right lung.", "111110"),
    ],
)
def test_unilateral_reports_are_read_through_their_errors(place, expected):
    assert label(UNILATERAL + place) == expected


@pytest.mark.parametrize("stray", ["lower ll left lung.", "lower l left lung."])
def test_a_doubtful_all_beside_a_level_adds_nothing(stray):
    assert label(UNILATERAL + stray) == "001000"
    assert label(UNILATERAL + "al left lung.") == "111000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BILATERAL + "all lung and upper right lung.", "111100"),
        (BILATERAL + "upper left lung and middle lower lung.", "100011"),
        (BILATERAL + "lower left and all upper lung.", "001111"),
        (UNILATERAL + "upper lower and right lung.", "000101"),
        (BILATERAL + "upper lung and lower lung.", "100001"),
        (BILATERAL + "all lung.", "111111"),
        (UNILATERAL + "upper lung.", "000000"),
        ("Infection of the upper and lower left lung.", "101000"),
        (BILATERAL + "upper and lower left lung and lower right lung.", "101001"),
        (UNILATERAL + "upper left lower lung.", "101000"),
    ],
)
def test_a_missing_side_follows_from_the_other_phrases(text, expected):
    assert label(text) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("left lung and middle right lung.", "000010"),
        ("left lung and right lung.", "000000"),
        ("all left lung and right lung.", "111000"),
    ],
)
def test_a_side_without_a_level_names_nothing(place, expected):
    assert label(UNILATERAL + place) == expected


def test_the_release_reads_a_bare_side_as_all_of_it():
    text = UNILATERAL + "left lung and middle right lung."
    assert parse_slots_as_whole(text, "lungs") == [1, 1, 1, 0, 1, 0]
    assert parse_slots_as_whole(UNILATERAL + "upper left lung.", "lungs") == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    ["No pulmonary infection, zero infected areas.", "", "Bilateral pulmonary infection.",
     "Unilateral pulmonary infection, eight infected areas.", "Light infection of the lung.",
     "bilateral pulmonary infection, [UNK_POS] and a region of the lung."],
)  # fmt: skip
def test_a_text_without_positions_is_all_zero(text):
    assert label(text) == "000000"
    assert find(text, "lungs") == ()


def test_an_unknown_vocabulary_is_refused():
    with pytest.raises(UserError, match="vocabulary"):
        parse("upper left lung", "six")


@given(misspelt(captions | lvit_reports() | mosmed_reports()))
@quick
def test_one_typing_error_in_every_word_does_not_change_the_label(pair):
    report, damaged = pair
    assert label(damaged) == label(report)


@given(glued(captions | lvit_reports()))
@quick
def test_lost_and_doubled_spaces_do_not_change_the_label(pair):
    report, damaged = pair
    assert label(damaged) == label(report)


@given(misspelt(captions | lvit_reports()))
@quick
def test_phrases_lie_after_the_count_in_order_and_without_overlap(pair):
    _, text = pair
    spans = find(text, "lungs")
    ends = [text.index(",", text.index(",") + 1), *(s.end for s in spans)]
    assert all(s.start >= end for s, end in zip(spans, ends, strict=False))
    assert all(text[s.start : s.end] == text[s.start : s.end].strip(" ,.") for s in spans)
