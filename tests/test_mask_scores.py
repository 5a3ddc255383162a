import math

import numpy as np
import pytest

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.mask_scores import COLUMNS, MaskScores

SCORES = MaskScores(tolerance=0.25, overlap=0.5, connectivity=8)


def test_tolerance_is_a_share_of_the_side():
    a = np.zeros((1, 8, 8), dtype=bool)
    b = a.copy()
    a[0, 2, 2] = b[0, 2, 4] = True  # 2 pixels apart: a quarter of 8
    near, far = (MaskScores(tolerance=t, overlap=0.5, connectivity=8) for t in (0.25, 0.24))
    assert near.measure(a, b)[0].tolist() == [1.0, 2.0, 1.0, 0.0, 1.0]
    assert far.measure(a, b)[0, 0] == 0.0


def test_summary_means_boundaries_over_images_and_pools_lesions():
    table = np.array([[0.5, 4.0, 3, 2, 0], [1.0, 2.0, 1, 1, 1], [0.0, np.nan, 2, 0, 0]])
    scores = SCORES.summarize(table)
    assert scores == {
        "nsd": 0.5,
        "hd95": 3.0,
        "hd95_undefined": pytest.approx(1 / 3),
        "lesion_recall": 3 / 6,
        "lesion_precision": 3 / 4,
        "lesion_f1": 2 * 3 / (6 + 3 + 1),
    }
    recall, precision = scores["lesion_recall"], scores["lesion_precision"]
    assert scores["lesion_f1"] == pytest.approx(2 * recall * precision / (recall + precision))
    assert len(COLUMNS) == table.shape[1]


def test_a_set_without_a_defined_distance_has_none():
    scores = SCORES.summarize(np.array([[0.0, np.nan, 1, 0, 0]]))
    assert math.isnan(scores["hd95"]) and scores["hd95_undefined"] == 1


def test_nothing_to_find_and_nothing_found_is_perfect():
    empty = np.zeros((2, 8, 8), dtype=bool)
    scores = SCORES.summarize(SCORES.measure(empty, empty))
    assert [scores[k] for k in ("nsd", "hd95", "lesion_f1")] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("wrong", [{"tolerance": 2}, {"overlap": -0.1}, {"connectivity": 6}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(UserError, match=r"scores\.\w+=.*expected"):
        MaskScores(**({"tolerance": 0.01, "overlap": 0.1, "connectivity": 8} | wrong))


def test_the_shipped_settings_build():
    assert isinstance(build(compose([]), "scores"), MaskScores)
