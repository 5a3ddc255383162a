import pytest
from hypothesis import given
from hypothesis import strategies as st

from semimedref.errors import UserError
from semimedref.text.caption import lung_caption
from semimedref.text.lungs import header
from semimedref.text.position import parse
from semimedref.text.spans import Writing, append_phrase, conjoin, lesion_count, restate
from semimedref.text.vocabulary import LUNGS
from tests.text.reports import (
    LVIT,
    MOSMED_PLUS,
    SGSEG,
    answers,
    lung_phrases,
    lvit_reports,
    misspelt,
    mosmed_reports,
    positions,
    quick,
)

UPPER_LEFT, MIDDLE_LEFT, LOWER_LEFT, UPPER_RIGHT, MIDDLE_RIGHT, LOWER_RIGHT = range(6)


def united(text, regions, vocabulary="lungs"):
    return [int(on or i in regions) for i, on in enumerate(parse(text, vocabulary))]


def test_a_level_of_the_same_side_joins_its_phrase_in_level_order():
    text = "unilateral pulmonary infection, one infected area, lower left lung."
    assert conjoin(text, [UPPER_LEFT], "lungs", SGSEG) == (
        "unilateral pulmonary infection, two infected areas, upper lower left lung."
    )


def test_the_other_side_makes_the_report_bilateral_and_the_left_comes_first():
    text = "Unilateral pulmonary infection, one infected area, lower right lung."
    assert conjoin(text, [MIDDLE_LEFT, UPPER_LEFT], "lungs", LVIT) == (
        "Bilateral pulmonary infection, two infected areas, "
        "upper middle left lung and lower right lung."
    )
    text = "Unilateral pulmonary infection, one infected area, lower left lung."
    assert conjoin(text, [LOWER_RIGHT], "lungs", LVIT) == (
        "Bilateral pulmonary infection, two infected areas, lower left lung and lower right lung."
    )


def test_a_pasted_lesion_is_counted_though_its_region_is_named_already():
    text = "Unilateral pulmonary infection, one infected area, all left lung."
    assert conjoin(text, [LOWER_LEFT], "lungs", LVIT) == (
        "Unilateral pulmonary infection, two infected areas, all left lung."
    )
    caption = lung_caption([1, 0, 0, 0, 0, 0])
    assert conjoin(caption, [UPPER_LEFT], "lungs", SGSEG) == caption


def test_three_levels_are_written_as_the_data_set_does():
    text = "unilateral pulmonary infection, two infected areas, upper lower left lung."
    assert "upper middle lower left lung." in conjoin(text, [MIDDLE_LEFT], "lungs", SGSEG)
    assert "all left lung." in conjoin(text, [MIDDLE_LEFT], "lungs", LVIT)


def test_an_empty_slot_is_filled():
    text = "Unilateral pulmonary infection, one infected areas, left lung and lower right lung."
    assert conjoin(text, [UPPER_LEFT], "lungs", MOSMED_PLUS) == (
        "Bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."
    )
    assert conjoin(text, [UPPER_RIGHT], "lungs", MOSMED_PLUS) == (
        "Unilateral pulmonary infection, two infected areas, left lung and upper lower right lung."
    )


def test_a_report_without_infection_gains_its_first_one():
    text = "No pulmonary infection, zero infected areas."
    assert conjoin(text, [MIDDLE_LEFT], "lungs", MOSMED_PLUS) == (
        "Unilateral pulmonary infection, one infected areas, middle left lung."
    )


def test_nine_is_the_largest_number_where_the_data_set_says_so():
    text = "Unilateral pulmonary infection, nine infected areas, middle left lung."
    assert "nine infected areas, upper middle" in conjoin(text, [0], "lungs", MOSMED_PLUS)
    assert "ten infected areas, upper middle" in conjoin(text, [0], "lungs", LVIT)


@pytest.mark.parametrize(
    ("text", "regions", "expected"),
    [
        (
            "Bilateral pulmonary infection, thrr infected areas, lwoer leff lung and mddle right.",
            [UPPER_RIGHT],
            "Bilateral pulmonary infection, four infected areas, "
            "lwoer leff lung and upper middle right lung.",
        ),
        (
            "Unilateral pulmonary infection, oneinfected areas, middle lift lung.",
            [LOWER_RIGHT],
            "Bilateral pulmonary infection, two infected areas, middle lift lung"
            " and lower right lung.",
        ),
        (
            "Bilateral pulmonary infection, two one infected area, all lung and lower right lung.",
            [UPPER_RIGHT],
            "Bilateral pulmonary infection, three infected areas, "
            "all left lung and upper lower right lung.",
        ),
        (
            "Unilateral pulmonary infection, one infected area, upper and lower right lung.",
            [LOWER_LEFT],
            "Bilateral pulmonary infection, two infected areas, "
            "lower left lung and upper right lung and lower right lung.",
        ),
    ],
)
def test_misspelt_phrases_keep_their_words_unless_they_are_edited(text, regions, expected):
    assert conjoin(text, regions, "lungs", LVIT) == expected


def test_phrases_that_never_name_a_side_give_way_to_one_that_does():
    text = "Unilateral pulmonary infection, one infected area, upper lung and lower lung."
    assert conjoin(text, [MIDDLE_RIGHT], "lungs", LVIT) == (
        "Unilateral pulmonary infection, two infected areas, middle right lung."
    )


@given(positions, lung_phrases)
@quick
def test_a_mixed_caption_is_the_caption_of_the_union(q, phrase):
    union = [int(on or i in phrase) for i, on in enumerate(q)]
    assert conjoin(lung_caption(q), phrase, "lungs", SGSEG) == lung_caption(union)


@given(lvit_reports() | misspelt(lvit_reports()).map(lambda pair: pair[1]), lung_phrases)
@quick
def test_a_mixed_report_parses_to_the_union(text, phrase):
    assert parse(conjoin(text, phrase, "lungs", LVIT), "lungs") == united(text, phrase)


@given(mosmed_reports() | misspelt(mosmed_reports()).map(lambda pair: pair[1]), lung_phrases)
@quick
def test_a_mixed_mosmed_report_parses_to_the_union(text, phrase):
    assert parse(conjoin(text, phrase, "lungs", MOSMED_PLUS), "lungs") == united(text, phrase)


@given(lvit_reports(), lung_phrases)
@quick
def test_count_and_laterality_of_a_mixed_report_are_true(text, phrase):
    def facts(report):
        said = [token.meaning for token in header(report)]
        return said[0], int(next(m for m in said if m and m.startswith("number")).split()[1])

    laterality, count = facts(mixed := conjoin(text, phrase, "lungs", LVIT))
    sides = {LUNGS.cells[i].side for i, on in enumerate(parse(mixed, "lungs")) if on}
    assert laterality == ("bilateral" if len(sides) == 2 else "unilateral")
    assert count == facts(text)[1] + 1
    assert f" {'area' if count == 1 else 'areas'}, " in mixed


@given(answers(), st.integers(0, 4))
@quick
def test_an_answer_gains_one_sentence_unless_it_names_the_zone(text, zone):
    mixed = conjoin(text, [zone], "quadrants", None)
    assert parse(mixed, "quadrants") == united(text, [zone], "quadrants")
    assert mixed.startswith(text)
    assert (mixed == text) == bool(parse(text, "quadrants")[zone])
    assert conjoin(mixed, [zone], "quadrants", None) == mixed


def test_the_sentence_of_a_donor_names_its_zone():
    assert conjoin("It is in the center", [2], "quadrants", None) == (
        "It is in the center. Another lesion is in the bottom left region of the image."
    )


def test_the_release_appends_to_the_first_phrase_and_updates_nothing():
    text = "unilateral pulmonary infection, one infected area, lower left lung."
    assert append_phrase(text, "lower right lung", "lungs") == (
        "unilateral pulmonary infection, one infected area, lower left lung and lower right lung."
    )
    assert append_phrase(text, "lower left lung", "lungs") == text


def test_bad_rules_are_refused():
    with pytest.raises(UserError, match="'lesions', expected regions or increment"):
        Writing(count="lesions", cap=None, always_plural=False, whole=None)
    with pytest.raises(UserError, match="needs `writing`"):
        conjoin("lower left lung", [0], "lungs", None)


def test_a_sentence_that_lost_its_phrases_still_counts_the_regions_of_its_label():
    damaged = (
        "bilateral pulmonary infection, two infected areas, [UNK_POS] and a region of the lung."
    )
    mixed = conjoin(damaged, [LOWER_RIGHT], "lungs", SGSEG, known=[UPPER_LEFT, UPPER_RIGHT])
    assert "three infected areas" in mixed


def test_positions_are_said_anew_in_the_writing_of_the_data_set():
    text = "Bilateral pulmonary infection, two infected areas, all left lung and lower right lung."
    assert restate(text, [MIDDLE_RIGHT], "lungs", LVIT, lesions=1) == (
        "Unilateral pulmonary infection, one infected area, middle right lung."
    )
    none = "No pulmonary infection, zero infected areas."
    assert restate(none, [0, 1, 2, LOWER_RIGHT], "lungs", MOSMED_PLUS, lesions=12) == (
        "Bilateral pulmonary infection, nine infected areas, all left lung and lower right lung."
    )
    assert (lesion_count(text), lesion_count(none), lesion_count("upper left lung")) == (2, 0, None)


@quick
@given(st.one_of(lvit_reports(), mosmed_reports(), misspelt(lvit_reports()).map(lambda x: x[1])),
       positions, st.sampled_from((SGSEG, LVIT, MOSMED_PLUS)))  # fmt: skip
def test_a_restated_report_names_exactly_the_regions(text, position, writing):
    new = restate(text, LUNGS.indices(position), "lungs", writing, lesions=2)
    assert parse(new, "lungs") == position


@quick
@given(answers(), st.sets(st.integers(0, 4), min_size=1))
def test_a_restated_answer_names_exactly_the_regions(text, regions):
    new = restate(text, sorted(regions), "quadrants", None)
    assert parse(new, "quadrants") == [int(k in regions) for k in range(5)]
