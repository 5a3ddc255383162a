import hashlib
import itertools

import pytest

from semimedref.errors import UserError
from semimedref.text.removal import Removal, number, removed_of

CASES = [f"case-{i:05d}" for i in range(4000)]
TEXT = "Bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."
BARE = "Bilateral pulmonary infection, two infected areas."


def removal(**changes):
    asked = {"vocabulary": "lungs", "training": 0.5, "validation": 0.5, "key": "image_id"}
    return Removal(**(asked | changes))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_the_share_removed_by_image_id_is_the_one_asked_for(share):
    found = sum(removed_of(CASES, CASES, share, key="image_id")) / len(CASES)
    deviation = (share * (1 - share) / len(CASES)) ** 0.5
    assert abs(found - share) < 3 * deviation


def test_nothing_and_everything_are_exact():
    assert not any(removed_of(CASES, CASES, 0.0, key="image_id"))
    assert all(removed_of(CASES, CASES, 1.0, key="image_id"))


def test_a_larger_share_contains_a_smaller_one():
    chosen = [removed_of(CASES, CASES, share, key="image_id") for share in (0.2, 0.5, 0.8)]
    for smaller, larger in itertools.pairwise(chosen):
        assert all(b for a, b in zip(smaller, larger, strict=True) if a)


def test_an_image_keeps_its_fate_whatever_set_it_is_in():
    alone = [removed_of([case], ["text"], 0.5, key="image_id")[0] for case in CASES[:50]]
    assert alone == removed_of(CASES[:50], ["text"] * 50, 0.5, key="image_id")


def test_by_report_text_equal_sentences_share_their_fate():
    texts = [f"text {i % 3}" for i in range(300)]
    chosen = removed_of(CASES[:300], texts, 0.5, key="report_text")
    assert chosen == [chosen[i % 3] for i in range(300)]


def test_the_number_of_a_case_is_its_salted_hash():
    by_hand = int(hashlib.sha256(b"42|case-00007").hexdigest()[:12], 16) / 16**12
    assert number("case-00007") == by_hand


def test_equation_ispg_removes_all_positions_with_probability_rho():
    assert removal()(TEXT, 0.49) == BARE
    assert removal()(TEXT, 0.5) == TEXT
    assert removal(training=0.0)(TEXT, 0.0) == TEXT
    assert removal(training=1.0)(TEXT, 0.999) == BARE


def test_what_posaug_left_of_a_phrase_goes_too():
    edited = (
        "Bilateral pulmonary infection, two infected areas, [UNK_POS] and a region of the lung."
    )
    assert removal()(edited, 0.0) == BARE


@pytest.mark.parametrize("changes", [{"training": 1.5}, {"validation": -0.1}, {"key": "patient"}])
def test_what_cannot_be_meant_is_refused(changes):
    with pytest.raises(UserError, match="expected"):
        removal(**changes)
