import numpy as np
import pandas as pd
import pytest

from semimedref.results.measures import LESION_F1, NSD, global_dice, global_miou, mean, mean_of


def test_global_dice_pools_counts_over_images():
    sums = np.array([[30, 10, 10], [20, 0, 20]], dtype=float)
    assert global_dice(sums.sum(0)) == 100 / 140  # 2·50 / (2·50 + 10 + 30)
    assert global_dice(sums).tolist() == [60 / 80, 40 / 60]


def test_global_miou_is_dice_over_two_minus_dice():
    sums = np.array([[30, 10, 10], [20, 0, 20]], dtype=float)
    dice = global_dice(sums)
    assert global_miou(sums) == pytest.approx(dice / (2 - dice))
    assert global_miou(sums.sum(0)) == 50 / 90


def test_nothing_to_find_and_nothing_found_is_perfect():
    assert global_dice(np.zeros(3)) == global_miou(np.zeros(3)) == 1.0


def test_a_mean_leaves_out_images_without_a_value():
    frame = pd.DataFrame({"mine": [1.0, np.nan, 3.0]})
    parts = mean_of("mine").parts(frame)
    assert parts.tolist() == [[1, 1], [0, 0], [3, 1]]
    assert mean(parts.sum(0)) == 2.0
    assert np.isnan(mean(np.zeros(2)))


def test_lesion_f1_counts_found_false_and_missed():
    frame = pd.DataFrame({"lesions": [3, 0], "lesions_found": [2, 0], "lesions_false": [0, 1]})
    parts = LESION_F1.parts(frame)
    assert parts.tolist() == [[2, 0, 1], [0, 1, 0]]
    assert LESION_F1.score(parts.sum(0)) == 2 * 2 / (2 * 2 + 1 + 1)


def test_nsd_is_a_fraction_and_an_own_column_is_a_number():
    assert NSD.percent and not mean_of("mine").percent
