import numpy as np
import pytest

from semimedref.error_kind import KINDS, error_kind, on_wrong_side


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ((70, 30, 30), "good"),  # Dice 140 / 200
        ((69, 31, 31), "inexact"),  # Dice 138 / 200, area 100 of 100
        ((0, 0, 0), "good"),  # nothing to find, nothing marked
        ((0, 5, 0), "false lesion"),  # nothing to find
        ((0, 0, 100), "missed lesion"),
        ((9, 40, 91), "missed lesion"),  # 9 of 100 hit, 49 marked
        ((9, 41, 91), "wrong place"),  # 50 marked
        ((60, 100, 40), "over-segmented"),  # 160 of 100
        ((50, 0, 50), "under-segmented"),  # 50 of 100
    ],
)
def test_counts_of_pixels_decide(counts, kind):
    assert error_kind(*counts) == kind


def test_counted_lesions_tell_more_kinds_apart():
    assert error_kind(50, 0, 50, missed=1) == "missed lesion"
    assert error_kind(60, 100, 40, false=1) == "false lesion"
    assert error_kind(60, 100, 40, missed=1) == "over-segmented"  # more is false than missed
    assert error_kind(80, 5, 15, missed=1, false=3) == "good"


def test_wrong_side_is_named_before_anything_but_good():
    assert error_kind(0, 90, 100, wrong_side=True) == "wrong side"
    assert error_kind(70, 30, 30, wrong_side=True) == "good"


def test_every_kind_is_explained():
    found = {error_kind(*c) for c in ((9, 1, 1), (0, 9, 0), (0, 0, 9), (1, 90, 99))}
    assert found <= set(KINDS)


@pytest.mark.parametrize(
    ("truth", "marks", "expected"),
    [
        ([1, 0, 0, 0], [0, 0, 0, 1], True),
        ([1, 0, 0, 0], [1, 0, 0, 1], False),  # as much here as there
        ([1, 0, 0, 1], [0, 0, 1, 1], False),  # both sides are named
        ([0, 0, 0, 1], [1, 1, 1, 0], True),
        ([0, 0, 0, 0], [1, 0, 0, 0], False),  # nothing to find
        ([0, 0, 0, 1], [0, 0, 0, 0], False),  # nothing marked
    ],
)
def test_wrong_side_is_where_no_lesion_is(truth, marks, expected):
    assert on_wrong_side(np.array([truth]), np.array([marks])) is expected
