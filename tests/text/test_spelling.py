import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semimedref.text.lungs import ALL_WORDS, PLACE_WORDS
from semimedref.text.spelling import distance, read
from tests.text.reports import quick

short = st.text("abc", max_size=5)


def meanings(text, lexicon=PLACE_WORDS):
    return [token.meaning for token in read(text, lexicon)]


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [
        ("lower", "lower", 0), ("lwoer", "lower", 1), ("ower", "lower", 1), ("lowerl", "lower", 1),
        ("uooer", "upper", 2), ("lower", "upper", 3), ("", "all", 3),
    ],
)  # fmt: skip
def test_distance_counts_edits_and_swaps_of_neighbours(a, b, edits):
    assert distance(a, b) == distance(b, a) == edits


def neighbours(word):
    for i, letter in itertools.product(range(len(word) + 1), "abc"):
        yield word[:i] + letter + word[i:]
        yield word[:i] + letter + word[i + 1 :]
        yield word[:i] + word[i + 1 :]
        yield word[:i] + word[i : i + 2][::-1] + word[i + 2 :]


@given(short, short)
@quick
def test_distance_is_one_exactly_for_words_that_one_edit_makes_of_each_other(a, b):
    assert (distance(a, b) == 1) == (a != b and b in set(neighbours(a)))


@pytest.mark.parametrize(
    "word",
    ["lowe", "lowerl", "ower", "lwoer", "lowoer", "loweer", "rlower", "llower", "lowr", "lowwer"],
)
def test_misspelt_words_are_read_as_the_nearest_one(word):
    assert meanings(word) == ["lower"]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("lowerright", ["lower", "right"]),
        ("middlelower", ["middle", "lower"]),
        ("lowerall", ["lower", "all"]),
        ("leflung", ["left", "lung"]),
        ("andupper", ["and", "upper"]),
        ("lowerleftlungand", ["lower", "left", "lung", "and"]),
    ],
)
def test_glued_words_are_cut_apart(word, parts):
    tokens = read(word, PLACE_WORDS)
    assert [t.meaning for t in tokens] == parts
    assert tokens[0].start == 0
    assert tokens[-1].end == len(word)
    assert all(a.end == b.start for a, b in itertools.pairwise(tokens))


def test_a_torn_word_is_read_as_one():
    assert meanings("lo wer le ft lung") == ["lower", "left", "lung"]


@pytest.mark.parametrize(
    "word",
    ["infected", "infection", "pulmonary", "areas", "one", "two", "three", "five", "nine", "eight",
     "zero", "region", "of", "the", "a", "with", "over", "under", "consolidation", "mild", "l"],
)  # fmt: skip
def test_other_words_never_become_positions(word):
    positional = {"upper", "middle", "lower", "all", "left", "right"}
    assert not positional & set(meanings(word, ALL_WORDS))
