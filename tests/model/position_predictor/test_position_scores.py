import math

import numpy as np
import pytest

from semimedref.model.position_predictor.scores import auroc, average_precision, f1, position_scores


def brute_average_precision(score, truth):
    """For every threshold, from the highest: recall gained times precision."""
    total, before = 0.0, 0.0
    for t in sorted(set(score), reverse=True):
        chosen = [y for s, y in zip(score, truth, strict=True) if s >= t]
        recall, precision = sum(chosen) / sum(truth), sum(chosen) / len(chosen)
        total += (recall - before) * precision
        before = recall
    return total


def brute_auroc(score, truth):
    """All pairs of a positive and a negative."""
    positives = [s for s, y in zip(score, truth, strict=True) if y]
    negatives = [s for s, y in zip(score, truth, strict=True) if not y]
    wins = sum((a > b) + (a == b) / 2 for a in positives for b in negatives)
    return wins / (len(positives) * len(negatives))


def draw(seed):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 6, 30) / 5  # many ties
    truth = rng.random(30) < 0.4
    return score, truth


def test_average_precision_by_hand():
    # precision 1 at the first hit, 2/3 at the second, each half of the recall
    found = average_precision(np.array([0.9, 0.8, 0.7, 0.1]), np.array([True, False, True, False]))
    assert found == pytest.approx((1 + 2 / 3) / 2)


def test_average_precision_of_equal_scores_is_the_share_of_positives():
    found = average_precision(np.full(4, 0.5), np.array([True, False, False, False]))
    assert found == pytest.approx(1 / 4)


def test_auroc_by_hand():
    # pairs: 0.9 beats both, 0.4 beats 0.1 and ties with 0.4
    found = auroc(np.array([0.9, 0.4, 0.4, 0.1]), np.array([True, True, False, False]))
    assert found == pytest.approx(3.5 / 4)


def test_f1_by_hand():
    predicted, truth = np.array([True, True, True, False]), np.array([True, True, False, True])
    assert f1(predicted, truth) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))


@pytest.mark.parametrize("seed", range(8))
def test_scores_equal_their_brute_force_twins(seed):
    score, truth = draw(seed)
    pairs = score.tolist(), truth.tolist()
    assert average_precision(score, truth) == pytest.approx(brute_average_precision(*pairs))
    assert auroc(score, truth) == pytest.approx(brute_auroc(*pairs))


def test_macro_scores_leave_out_regions_for_which_they_are_not_defined():
    p = np.array([[0.9, 0.2, 0.6], [0.1, 0.1, 0.7], [0.5, 0.3, 0.8]])
    q = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1]])
    # region 1 is never named nor predicted: no score. Region 2 is always named: no AUROC.
    found = position_scores(p, q, threshold=0.5)
    assert found == pytest.approx({"map": 1.0, "auroc": 1.0, "f1": (2 / 3 + 1) / 2})


def test_threshold_itself_counts_as_predicted():
    scores = {
        t: position_scores([[0.5], [0.1]], [[1], [0]], threshold=t)["f1"] for t in (0.5, 0.51)
    }
    assert scores == {0.5: 1.0, 0.51: 0.0}


def test_region_that_is_predicted_but_never_named_lowers_f1():
    assert position_scores([[0.9, 0.9]], [[1, 0]], threshold=0.5)["f1"] == pytest.approx(0.5)


def test_no_defined_region_gives_no_number():
    found = position_scores(np.zeros((2, 1)), np.zeros((2, 1)), threshold=0.5)
    assert all(math.isnan(value) for value in found.values())
