"""The grammar of an own vocabulary, and that every edit of words works on it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semimedref.text.position import find, parse
from semimedref.text.spans import (
    append_phrase,
    conflict,
    conjoin,
    drop,
    edit,
    fuzz,
    laterality,
    phrases,
    remove,
)
from semimedref.text.vocabulary import vocabulary
from tests.text import kidneys
from tests.text.reports import quick


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return kidneys.write(tmp_path_factory.mktemp("own"))


def named(text, words):
    return [kidneys.NAMES[i] for i, on in enumerate(parse(text, words)) if on]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A stone in the left upper pole.", ["upper left"]),
        ("A STONE IN THE LEFT-UPPER POLE.", ["upper left"]),
        ("Upper pole of the left kidney: a stone.", ["upper left"]),
        ("A stone in the left kidney.", ["left kidney"]),
        ("A stone in the left\n kidney and a urinary bladder", ["left kidney", "bladder"]),
        ("The bladder neck region is thick.", ["bladder"]),
        ("The gallbladder is empty, left kidneys too.", []),
        ("", []),
    ],
)
def test_any_listed_wording_names_its_region_as_a_whole_word(text, expected, words):
    assert named(text, words) == expected


def test_the_longest_wording_counts_where_two_overlap(words):
    text = "A cyst in the upper pole of the left kidney."
    (span,) = find(text, words)
    assert text[span.start : span.end] == "the upper pole of the left kidney"
    assert span.sides == ("left",) and not span.slot


@given(case=kidneys.sentences())
@quick
def test_a_sentence_names_the_regions_that_were_put_into_it(case, words):
    text, regions = case
    assert parse(text, words) == [int(i in regions) for i in range(len(kidneys.NAMES))]
    spans = find(text, words)
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))


@given(case=kidneys.sentences(), added=st.lists(st.integers(0, 4), max_size=3))
@quick
def test_a_mixed_sentence_parses_to_the_union(case, added, words):
    text, regions = case
    mixed = conjoin(text, added, words, None)
    assert parse(mixed, words) == [int(i in {*regions, *added}) for i in range(5)]
    assert mixed.startswith(text.rstrip())
    assert conjoin(mixed, added, words, None) == mixed


def test_a_donors_region_is_written_by_its_first_wording(words):
    assert conjoin("A stone in the left kidney", [4], words, None) == (
        "A stone in the left kidney. Another lesion is in the bladder."
    )
    assert append_phrase("A stone in the left kidney.", "the bladder", words) == (
        "A stone in the left kidney and the bladder."
    )


@given(case=kidneys.sentences())
@quick
def test_no_region_is_left_after_dropping_fuzzing_or_removing(case, words):
    text, _ = case
    for change in (drop, fuzz, remove):
        once = change(text, words)
        assert not any(parse(once, words)) and change(once, words) == once
    assert remove(drop(text, words), words) == remove(text, words)
    assert find(remove(text, words), words) == ()


@given(case=kidneys.sentences(), data=st.data())
@quick
def test_kept_phrases_keep_their_regions_and_edited_ones_lose_them(case, data, words):
    text, _ = case
    found = phrases(text, words)
    n = len(found)
    chosen = data.draw(st.lists(st.sampled_from(("keep", "drop", "fuzz")), min_size=n, max_size=n))
    kept = {i for s, how in zip(found, chosen, strict=True) if how == "keep" for i in s.regions}
    assert parse(edit(text, words, chosen), words) == [int(i in kept) for i in range(5)]


def test_removal_takes_the_words_that_led_to_a_place(words):
    assert remove("A stone is seen in the bladder.", words) == "A stone is seen."
    assert remove("A stone in the left upper pole and in the bladder is likely.", words) == (
        "A stone is likely."
    )
    assert fuzz("A stone in its left kidney.", words) == f"A stone in {kidneys.FUZZY}."


def test_a_wording_that_appears_by_a_removal_is_removed_too(words):
    assert remove("A stone, left the bladder kidney.", words) == "A stone."


def test_sides_make_laterality_and_conflicts(words):
    left, right, middle = [1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]
    assert laterality(left, words) == "left" and laterality(middle, words) == "none"
    assert conflict(left, right, words) and not conflict(left, middle, words)


def test_a_vocabulary_called_like_a_built_in_one_keeps_its_own_words(tmp_path):
    path = kidneys.write(tmp_path, kidneys.content() | {"name": "lungs"})
    assert vocabulary(path).name == "lungs"
    assert parse("a stone in the bladder, upper left lung", path) == [0, 0, 0, 0, 1]
    assert conjoin("a stone in the bladder.", [0], path, None).endswith("in the left upper pole.")


def test_without_a_vocabulary_no_sentence_names_anything():
    text = "A stone in the upper left lung."
    assert parse(text, None) == [] and find(text, None) == ()
    assert remove(text, None) == drop(text, None) == text
