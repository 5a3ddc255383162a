import numpy as np
import pytest

from semimedref.analysis.bootstrap import REPLICATES, SEED, interval, mean_interval
from semimedref.results.significance import draw_patients


def test_one_patient_leaves_nothing_to_draw():
    assert mean_interval(np.array([0.2, 0.4]), ["a", "a"]) == pytest.approx((0.3, 0.3))


def test_interval_agrees_with_drawing_whole_patients_one_by_one():
    values, patients = np.array([0.1, 0.9, 0.5, 0.4, 0.7]), ["b", "a", "a", "c", "b"]
    rng = np.random.default_rng(SEED)
    drawn = np.concatenate([draw_patients(rng, 500, 3) for _ in range(REPLICATES // 500)])
    groups = {"a": [0.9, 0.5], "b": [0.1, 0.7], "c": [0.4]}
    means = [
        np.mean([v for times, g in zip(row, groups.values(), strict=True)
                 for v in g * int(times)])
        for row in drawn
    ]  # fmt: skip
    assert mean_interval(values, patients) == pytest.approx(np.percentile(means, [2.5, 97.5]))


def test_any_function_of_the_sums_has_an_interval():
    columns = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    found = interval(columns, ["a", "b", "c"], lambda s: s[:, 0] / s[:, 1])
    assert found == pytest.approx((0.5, 0.5))
