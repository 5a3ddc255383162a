import random

import pytest

from semimedref.dataset.splits import labeled_subset
from semimedref.errors import UserError

IDS = [f"case_{i}" for i in range(5716)]


def subset(fraction, rounding="round"):
    return labeled_subset(IDS, fraction=fraction, split_seed=42, rounding=rounding)[0]


def test_counts_are_the_papers_on_qata_cov19():
    assert [len(subset(f)) for f in (0.01, 0.02, 0.05, 0.15)] == [57, 114, 286, 857]


def test_mosmed_floors():
    ids = [str(i) for i in range(2183)]
    sizes = [
        len(labeled_subset(ids, fraction=f, split_seed=42, rounding="floor")[0])
        for f in (0.01, 0.02, 0.05, 0.15)
    ]
    assert sizes == [21, 43, 109, 327]


def test_the_rule_is_a_plain_shuffle_of_the_ids():
    names = list(IDS)
    random.Random(42).shuffle(names)
    assert {IDS[i] for i in subset(0.02)} == set(names[:114])


def test_smaller_ratios_are_subsets_of_larger_ones():
    assert set(subset(0.01)) < set(subset(0.02)) < set(subset(0.15))


def test_labeled_and_unlabeled_share_nothing_and_miss_nothing():
    labeled, unlabeled = labeled_subset(IDS, fraction=0.05, split_seed=1, rounding="round")
    assert sorted(labeled + unlabeled) == list(range(len(IDS)))


def test_all_labels_leave_no_unlabeled_image():
    assert labeled_subset(IDS, fraction=1.0, split_seed=42, rounding="round")[1] == []


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5])
def test_an_impossible_ratio_is_refused(fraction):
    with pytest.raises(UserError, match="0 < fraction <= 1"):
        subset(fraction)
