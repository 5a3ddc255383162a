import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semimedref.text.position import find, parse
from semimedref.text.spans import conflict, drop, edit, fuzz, laterality, phrases, remove
from tests.text.reports import answers, captions, lvit_reports, misspelt, mosmed_reports, quick

HEAD = "Bilateral pulmonary infection, two infected areas"
reports = captions | lvit_reports() | mosmed_reports()
texts = st.one_of(
    st.tuples(reports | misspelt(reports).map(lambda pair: pair[1]), st.just("lungs")),
    st.tuples(answers(), st.just("quadrants")),
)


def test_spans_say_where_a_phrase_stands_and_what_it_names():
    text = f"{HEAD}, upper mmiddle leff lung and lowerright lung."
    spans = find(text, "lungs")
    assert [text[s.start : s.end] for s in spans] == ["upper mmiddle leff lung", "lowerright lung"]
    assert [s.regions for s in spans] == [(0, 1), (5,)]
    assert [s.sides for s in spans] == [("left",), ("right",)]


def test_a_side_without_a_level_is_an_empty_slot():
    text = "Unilateral pulmonary infection, one infected areas, left lung and lower right lung."
    slot, named = find(text, "lungs")
    assert (slot.slot, slot.regions, slot.sides) == (True, (), ("left",))
    assert phrases(text, "lungs") == (named,)


def test_dropping_and_fuzzing_replace_the_phrase_and_nothing_else():
    text = f"{HEAD}, all left lung and lower right."
    assert drop(text, "lungs") == f"{HEAD}, [UNK_POS] and [UNK_POS]."
    assert fuzz(text, "lungs") == f"{HEAD}, a region of the lung and a region of the lung."
    assert edit(text, "lungs", ["keep", "fuzz"]) == (
        f"{HEAD}, all left lung and a region of the lung."
    )


def test_words_glued_to_a_phrase_stay_and_come_apart_from_it():
    text = f"{HEAD}, lower left lung andupper right lung."
    assert edit(text, "lungs", ["keep", "drop"]) == f"{HEAD}, lower left lung and [UNK_POS]."


def test_an_empty_slot_has_nothing_to_drop_but_is_removed():
    head = "Unilateral pulmonary infection, one infected areas"
    text = f"{head}, left lung and lower right lung."
    assert drop(text, "lungs") == f"{head}, left lung and [UNK_POS]."
    assert remove(text, "lungs") == f"{head}."


@pytest.mark.parametrize(
    "place",
    [
        ", lower left lung and lower right lung.",
        ",lower left and upper middle right lung.",
        ", [UNK_POS] and lower right lung.",
        ", [ unk _ pos ] and a region of the lung.",
        ", lower left lung andupper right lung.",
        ", upper left lung, lower right lung.",
        ", upper left lung ald lower right lung.",
        ", [UNK_POS] nd [UNK_POS].",
        ".",
    ],
)
def test_removal_leaves_a_sentence_without_commas_and_conjunctions_at_its_end(place):
    assert remove(HEAD + place, "lungs") == f"{HEAD}."


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("The tumour is located in the top left region, near the center of the MRI image.",
         "The tumour is located."),
        ("The tumor is found in the top left area and is not near the center.",
         "The tumor is found."),
        ("The tumor is close to the center of the image and is classified as benign.",
         "The tumor is classified as benign."),
        ("The nodule is located near the center, and it is called benign.",
         "The nodule is located, and it is called benign."),
        ("The tumour is near the center.", "The tumour is visible."),
        ("The tumor is not located near the center; it is situated in the top left region.",
         "The tumor is located."),
    ],
)  # fmt: skip
def test_removal_takes_the_prepositions_of_an_answer_with_it(text, rest):
    assert remove(text, "quadrants") == rest


def test_fuzzing_an_answer_takes_article_and_noun_with_the_direction():
    text = "The tumour is positioned centrally, in the top left part of the MRI image."
    assert fuzz(text, "quadrants") == (
        "The tumour is positioned in a region of the image, in a region of the image."
    )
    text = "It lies in the central and near-central regions of the image."
    assert fuzz(text, "quadrants") == "It lies in a region of the image."


@given(texts)
@quick
def test_no_region_is_left_after_dropping_fuzzing_or_removing(case):
    text, vocabulary = case
    for change in (drop, fuzz, remove):
        assert not any(parse(change(text, vocabulary), vocabulary))
    assert find(remove(text, vocabulary), vocabulary) == ()


@given(texts)
@quick
def test_dropping_fuzzing_and_removing_twice_is_the_same_as_once(case):
    text, vocabulary = case
    for change in (drop, fuzz, remove):
        once = change(text, vocabulary)
        assert change(once, vocabulary) == once
    assert remove(drop(text, vocabulary), vocabulary) == remove(text, vocabulary)


@given(texts, st.data())
@quick
def test_everything_outside_an_edited_phrase_stays_as_it_is(case, data):
    text, vocabulary = case
    spans = phrases(text, vocabulary)
    choice = st.sampled_from(("keep", "drop", "fuzz"))
    chosen = data.draw(st.lists(choice, min_size=len(spans), max_size=len(spans)))
    edges = [0, *itertools.chain(*((s.start, s.end) for s in spans)), len(text)]
    outside = [re.escape(text[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    inside = [
        re.escape(text[s.start : s.end]) if how == "keep" else "(.*)"
        for s, how in zip(spans, chosen, strict=True)
    ]
    pattern = "".join(a + b for a, b in itertools.zip_longest(outside, inside, fillvalue=""))
    made = re.fullmatch(pattern, edit(text, vocabulary, chosen))
    assert made is not None
    fuzzy = {"lungs": "a region of the lung", "quadrants": "a region of the image"}[vocabulary]
    expected = [{"drop": "[UNK_POS]", "fuzz": fuzzy}[how] for how in chosen if how != "keep"]
    assert list(made.groups()) == expected


@given(texts)
@quick
def test_removal_ends_in_a_word_and_a_full_stop(case):
    text, vocabulary = case
    rest = remove(text, vocabulary)
    assert re.search(r"[A-Za-z]\.{1,2}$", rest)
    assert not re.search(r"  |,,| ,|[ ,]\.|\b(and|in|near|the|from)\.", rest)


@pytest.mark.parametrize(
    ("q", "expected"),
    [([1, 0, 1, 0, 0, 0], "left"), ([0, 0, 0, 0, 1, 0], "right"),
     ([1, 0, 0, 1, 0, 0], "both"), ([0] * 6, "none")],
)  # fmt: skip
def test_laterality_is_that_of_the_marked_regions(q, expected):
    assert laterality(q, "lungs") == expected


def test_only_left_alone_and_right_alone_are_in_conflict():
    left, right, both, none = [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 1], [0] * 6
    conflicts = {
        (i, j)
        for i, a in enumerate((left, right, both, none))
        for j, b in enumerate((left, right, both, none))
        if conflict(a, b, "lungs")
    }
    assert conflicts == {(0, 1), (1, 0)}
    assert conflict([1, 0, 0, 0, 0], [0, 1, 0, 0, 0], "quadrants")
    assert not conflict([1, 0, 0, 0, 0], [0, 0, 0, 0, 1], "quadrants")
