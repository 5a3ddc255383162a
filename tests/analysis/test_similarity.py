"""Similarity by positional overlap, against numbers worked out by hand and plain loops."""

import numpy as np
import pytest

from semimedref.analysis.alignment import (
    distributions,
    ordered_queries,
    overlap_classes,
    summarize,
)
from semimedref.errors import UserError

Q = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
AFFINITY = np.array([[1, 1, 0.5, 0], [1, 1, 0.5, 0], [0.5, 0.5, 1, 0], [0, 0, 0, 1]])


def test_overlap_is_same_partial_or_none():
    classes = overlap_classes(AFFINITY)
    assert [int(classes[k].sum()) for k in ("same", "partial", "none")] == [6, 4, 6]
    assert (sum(c.astype(int) for c in classes.values()) == 1).all()


def test_means_gaps_and_ordered_queries_by_hand():
    similarity = np.array([
        [0.9, 0.7, 0.5, 0.1],  # same 0.8 > partial 0.5 > none 0.1: ordered
        [0.5, 0.5, 0.6, 0.0],  # same 0.5 < partial 0.6: not
        [0.25, 0.5, 0.8, 0.375],  # same 0.8 > partial 0.375, none 0.375: a tie is not ordered
        [0.0, 0.1, 0.2, 0.9],  # no partial sentence: no query
    ])  # fmt: skip
    found = summarize(similarity, Q, ["a", "b", "c", "d"])
    assert found["queries"] == 3 and found["ordered_queries"] == pytest.approx(1 / 3)
    means = {
        "same": (0.9 + 0.7 + 0.5 + 0.5 + 0.8 + 0.9) / 6,
        "partial": (0.5 + 0.6 + 0.25 + 0.5) / 4,
        "none": (0.1 + 0.0 + 0.375 + 0.0 + 0.1 + 0.2) / 6,
    }
    assert found["means"] == pytest.approx(means)
    assert found["gap_same_partial"] == pytest.approx(means["same"] - means["partial"])
    assert found["gap_partial_none"] == pytest.approx(means["partial"] - means["none"])


def brute_ranks(values):
    """Mean rank of equal values, by counting."""
    return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]


def test_spearman_is_the_correlation_of_mean_ranks_over_all_pairs():
    similarity = np.random.default_rng(0).random((4, 4)).round(1)
    one, other = brute_ranks(similarity.ravel()), brute_ranks(AFFINITY.ravel())
    expected = np.corrcoef(one, other)[0, 1]
    assert summarize(similarity, Q, list("abcd"))["spearman"] == pytest.approx(expected)


def test_a_similarity_equal_to_the_affinity_is_perfect():
    found = summarize(AFFINITY, Q, list("abcd"))
    assert found["ordered_queries"] == 1 and found["spearman"] == pytest.approx(1)


def test_ordered_queries_agree_with_plain_loops():
    rng = np.random.default_rng(1)
    q = rng.integers(0, 2, (12, 4))
    similarity = rng.random((12, 12))
    from semimedref.analysis.alignment import _affinity

    found = ordered_queries(similarity, overlap_classes(_affinity(q)))
    for i in range(12):
        groups = {"same": [], "partial": [], "none": []}
        for j in range(12):
            both, either = (q[i] & q[j]).sum(), (q[i] | q[j]).sum()
            overlap = 1.0 if i == j else both / either if either else 0.0
            name = "same" if overlap == 1 else "none" if overlap == 0 else "partial"
            groups[name].append(similarity[i, j])
        if not all(groups.values()):
            assert np.isnan(found[i])
            continue
        same, partial, none = (np.mean(v) for v in groups.values())
        assert found[i] == (same > partial > none)


def test_a_split_without_partial_pairs_is_refused():
    with pytest.raises(UserError, match="partial"):
        summarize(np.eye(3), np.eye(3, dtype=int), list("abc"))


def test_distributions_hold_every_pair_and_its_percentiles():
    values = {"same": np.array([0.9, 1.0 + 1e-12]), "none": np.linspace(-1, 1, 101)}
    found = distributions(values)
    assert sum(found["histogram"]["same"]) == 2 and sum(found["histogram"]["none"]) == 101
    assert found["percentiles"]["none"] == pytest.approx([-0.9, -0.5, 0, 0.5, 0.9])
    assert len(found["histogram"]["edges"]) == len(found["histogram"]["same"]) + 1
