import itertools

import pytest

from semimedref.text.caption import lung_caption, swap_sides
from semimedref.text.vocabulary import LUNGS


def test_captions_follow_the_grammar_of_the_published_ones():
    assert lung_caption([1, 1, 1, 0, 1, 1]) == (
        "bilateral pulmonary infection, five infected areas, "
        "upper middle lower left lung and middle lower right lung."
    )
    assert lung_caption([0, 0, 0, 0, 0, 1]) == (
        "unilateral pulmonary infection, one infected area, lower right lung."
    )


def test_all_63_positions_have_a_caption_of_their_own():
    positions = [q for q in itertools.product((0, 1), repeat=6) if any(q)]
    assert len({lung_caption(q) for q in positions}) == 63


def test_no_region_is_no_caption():
    with pytest.raises(ValueError, match="at least one"):
        lung_caption([0] * 6)


def test_swapping_sides_twice_gives_the_sentence_back():
    text = lung_caption([1, 0, 0, 0, 0, 1])
    assert swap_sides(text) == (
        "bilateral pulmonary infection, two infected areas, upper right lung and lower left lung."
    )
    assert swap_sides(swap_sides(text)) == text


def test_regions_are_in_the_order_of_the_labels():
    assert LUNGS.regions == (
        "upper left", "middle left", "lower left", "upper right", "middle right", "lower right",
    )  # fmt: skip
