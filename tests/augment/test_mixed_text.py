"""The words of T-PatchMix: the paper's rules and those of the release."""

import pytest

from semimedref.augment.mixed_text import MixedText, Place
from semimedref.errors import UserError
from semimedref.text.caption import lung_caption
from semimedref.text.spans import Writing

WRITING = Writing(count="regions", cap=None, always_plural=False, whole=None)
UPPER_LEFT, LOWER_RIGHT = [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]
BOTH = [1, 0, 0, 0, 0, 1]
HEAD = "unilateral pulmonary infection, one infected area"


def rules(**changes):
    release = {"region_from": "receiver", "conflict": "first_phrases", "update_count": False}
    return MixedText(vocabulary="lungs", writing=WRITING, **(release | changes))


def place(tool, own, given, u=0.0):
    return tool.place(lung_caption(own), lung_caption(given), (own, given), u)


def test_a_bilateral_sentence_conflicts_with_a_right_only_one_by_first_phrases_alone():
    assert place(rules(), BOTH, LOWER_RIGHT) is None  # "upper left lung" against "lower right lung"
    assert place(rules(), BOTH, UPPER_LEFT) is not None
    assert place(rules(conflict="sides"), BOTH, LOWER_RIGHT) is not None
    assert place(rules(conflict="sides"), UPPER_LEFT, LOWER_RIGHT) is None


def test_the_release_places_the_patch_by_the_receivers_first_phrase():
    assert place(rules(), BOTH, UPPER_LEFT) == Place((0,), "upper left lung")
    assert place(rules(), LOWER_RIGHT, [0, 0, 0, 0, 1, 0]) == Place((5,), "middle right lung")
    joined = place(rules(), [1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0])
    assert joined == Place((0, 2), "middle left lung")


def test_the_paper_places_it_by_a_drawn_phrase_of_the_donor():
    paper = rules(region_from="donor", conflict="sides", update_count=True)
    assert place(paper, UPPER_LEFT, BOTH, u=0.2) == Place((0,), "upper left lung")
    assert place(paper, UPPER_LEFT, BOTH, u=0.7) == Place((5,), "lower right lung")


def test_a_damaged_receiver_gets_no_patch_and_a_damaged_donor_still_gives_one():
    whole, damaged = lung_caption(UPPER_LEFT), f"{HEAD}, [UNK_POS]."
    labels = (UPPER_LEFT, UPPER_LEFT)
    assert rules().place(damaged, whole, labels, 0.0) is None
    found = rules().place(whole, damaged, labels, 0.0)
    assert found == Place((0,), None)
    assert rules().placed(whole, found, labels[0]) == (whole, whole)


def test_the_release_joins_the_first_phrases_and_updates_neither_count_nor_side():
    found = place(rules(conflict="sides"), BOTH, [0, 1, 0, 0, 0, 0])
    own, mixed = rules().placed(lung_caption(BOTH), found, BOTH)
    head = "bilateral pulmonary infection, two infected areas"
    assert own == f"{head}, upper left lung and lower right lung."
    assert mixed == f"{head}, upper left lung and middle left lung and lower right lung."


def test_equal_first_phrases_are_not_joined():
    found = place(rules(), UPPER_LEFT, UPPER_LEFT)
    own, mixed = rules().placed(lung_caption(UPPER_LEFT), found, UPPER_LEFT)
    assert own == mixed


def test_the_paper_makes_the_mixed_sentence_true():
    paper = rules(region_from="donor", conflict="sides", update_count=True)
    found = place(paper, UPPER_LEFT, BOTH, u=0.7)
    _, mixed = paper.placed(lung_caption(UPPER_LEFT), found, UPPER_LEFT)
    assert mixed == lung_caption(BOTH)


def test_random_patches_of_the_release_exchange_the_phrase_and_prob_ones_change_nothing():
    own, given = lung_caption(UPPER_LEFT), lung_caption(LOWER_RIGHT)
    assert rules().anywhere(own, given, UPPER_LEFT, sure=False) == (
        own,
        f"{HEAD}, lower right lung.",
    )
    assert rules().anywhere(own, given, UPPER_LEFT, sure=True) == (own, own)
    nothing = f"{HEAD}, [UNK_POS]."
    assert rules().anywhere(own, nothing, UPPER_LEFT, sure=False) == (own, own)
    assert len(rules(update_count=True).anywhere(own, given, UPPER_LEFT, sure=False)) == 7


@pytest.mark.parametrize("changes", [{"region_from": "nobody"}, {"conflict": "never"}])
def test_unknown_rules_are_refused(changes):
    with pytest.raises(UserError, match="is unknown: expected"):
        rules(**changes)
