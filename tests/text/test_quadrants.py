import itertools

import pytest
from hypothesis import given

from semimedref.text.position import find, parse
from tests.text.reports import answers, quick

ZONES = ("TL", "TR", "BL", "BR", "C")


def zones(text):
    marked = parse(text, "quadrants")
    return " ".join(zone for zone, on in zip(ZONES, marked, strict=True) if on)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The nodule sits in the top left region and near the center of the image.", "TL"),
        ("The polyp is situated in the bottom left area of the image.", "BL"),
        ("The tumor is close to the center, in the lower right portion.", "BR"),
        ("It lies in the upper part of the image on the left side.", "TL"),
        ("It lies in the left lung, upper lobe.", "TL"),
        ("It lies in the top-right corner.", "TR"),
        ("It lies in the right upper zone.", "TR"),
    ],
)
def test_a_vertical_and_a_horizontal_word_make_a_quadrant(text, expected):
    assert zones(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It lies in the upper and lower left zones.", "TL BL"),
        ("Lesions in the upper left and right regions.", "TL TR"),
        ("Lesions in the left and right lower lobes.", "BL BR"),
        ("Lesions in the top left and the bottom right.", "TL BR"),
        ("It reaches from the top left to the bottom right.", "TL BR"),
    ],
)
def test_several_quadrants_can_be_named_at_once(text, expected):
    assert zones(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It lies on the left.", "TL BL"),
        ("It lies at the bottom of the image.", "BL BR"),
        ("It is seen on the right and somewhere rather near to the bottom.", "BR"),
        ("It is in the middle right region.", "TR BR"),
    ],
)
def test_words_without_a_partner_count_where_no_pair_is_named(text, expected):
    assert zones(text) == expected


@pytest.mark.parametrize("word", ["center", "centre", "central part", "middle"])
def test_the_center_counts_only_without_a_direction(word):
    assert zones(f"The lesion is in the {word}.") == "C"
    assert zones(f"The lesion is in the {word}, at the top left.") == "TL"
    assert zones("The lesion is centrally located.") == zones("It is centered.") == "C"


def test_a_sentence_of_a_donor_is_read_on_its_own():
    assert zones("It is in the top left. Another lesion is in the center of the image.") == "TL C"
    assert zones("It is in the center. Another lesion is in the top left region.") == "TL C"
    assert zones("It is in the top left. It is near the center.") == "TL"


def test_a_text_without_a_place_names_no_zone():
    assert zones("The image shows a benign tumor.") == ""
    assert find("The image shows a benign tumor.", "quadrants") == ()


@given(answers())
@quick
def test_every_answer_names_one_zone_and_its_spans_do_not_overlap(text):
    spans = find(text, "quadrants")
    assert sum(parse(text, "quadrants")) == 1
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
