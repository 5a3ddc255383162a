import itertools

import numpy as np
import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results import significance
from semimedref.results.significance import (
    bootstrap_ci,
    draw_patients,
    draw_swaps,
    global_dice,
    holm,
    paired_test,
)


def frame(images):
    return pd.DataFrame(images, columns=["id", "patient", "tp", "fp", "fn"]).assign(dice=0.0)


def random_pair(seed, images=40, patients=12):
    """Two methods on the same images: equal truth, different hits."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(20, 60, images)
    owner = [f"p{i}" for i in rng.integers(patients, size=images)]
    ids = [f"i{i}" for i in range(images)]
    pair = []
    for quality in (0.8, 0.7):
        tp = rng.binomial(truth, quality)
        fp = rng.integers(0, 20, images)
        pair.append(frame(list(zip(ids, owner, tp, fp, truth - tp, strict=True))))
    return pair


def slow_dice(rows):
    tp, fp, fn = (sum(int(row[name]) for row in rows) for name in ("tp", "fp", "fn"))
    return 2 * tp / (2 * tp + fp + fn) if 2 * tp + fp + fn else 1.0


def by_patient(table):
    return {patient: rows.to_dict("records") for patient, rows in table.groupby("patient")}


def test_global_dice_pools_counts_over_images():
    sums = np.array([[30, 10, 10], [20, 0, 20]], dtype=float)
    assert global_dice(sums.sum(0)) == 100 / 140  # 2·50 / (2·50 + 10 + 30)
    assert global_dice(sums).tolist() == [60 / 80, 40 / 60]


def test_nothing_to_find_and_nothing_found_is_perfect():
    assert global_dice(np.zeros(3)) == 1.0


def test_every_replicate_draws_as_many_patients_as_there_are():
    counts = draw_patients(np.random.default_rng(0), 500, 7)
    assert counts.sum(axis=1).tolist() == [7.0] * 500
    assert counts.mean() == 1.0
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.2


def test_swaps_are_fair_and_independent_of_byte_borders():
    swaps = draw_swaps(np.random.default_rng(0), 4000, 11)
    assert swaps.shape == (4000, 11)
    assert set(np.unique(swaps)) == {0.0, 1.0}
    assert np.abs(swaps.mean(axis=0) - 0.5).max() < 0.04


def test_bootstrap_of_one_seed_equals_the_loop_over_images():
    table, _ = random_pair(0)
    groups = by_patient(table)
    counts = draw_patients(np.random.default_rng(5), 200, len(groups))
    slow = []
    for row in counts:
        drawn = [r for n, rows in zip(row, groups.values(), strict=True) for r in rows * int(n)]
        slow.append(slow_dice(drawn))
    expected = np.percentile(slow, [2.5, 97.5])
    assert bootstrap_ci([table], replicates=200, seed=5) == tuple(expected)


def test_bootstrap_of_several_seeds_draws_seeds_and_common_patients():
    tables = random_pair(1)
    groups = [by_patient(table) for table in tables]
    rng = np.random.default_rng(3)
    counts, chosen = draw_patients(rng, 100, len(groups[0])), rng.integers(2, size=(100, 2))
    slow = []
    for row, seeds in zip(counts, chosen, strict=True):
        scores = []
        for seed in seeds:
            drawn = [
                r for n, rows in zip(row, groups[seed].values(), strict=True) for r in rows * int(n)
            ]
            scores.append(slow_dice(drawn))
        slow.append(sum(scores) / 2)
    expected = np.percentile(slow, [2.5, 97.5])
    assert bootstrap_ci(tables, replicates=100, seed=3) == pytest.approx(tuple(expected), abs=1e-15)


def test_patients_make_the_interval_wider_than_images_would():
    table, _ = random_pair(2, images=60, patients=60)
    table["tp"] = np.repeat([50, 5], 30)
    table["fn"] = 55 - table["tp"]
    alone = table.assign(patient=table["id"])
    few = table.assign(patient=[f"p{i // 10}" for i in range(60)])
    width = [np.diff(bootstrap_ci([t], replicates=1000, seed=0))[0] for t in (alone, few)]
    assert width[1] > 2 * width[0]


def test_paired_test_equals_the_loop_over_images(monkeypatch):
    a, b = random_pair(4)
    replicates = 120
    monkeypatch.setattr(significance, "_CHUNK", 50)  # 50 + 50 + 20
    groups_a, groups_b = by_patient(a), by_patient(b)
    rng = np.random.default_rng(9)
    counts = np.concatenate([draw_patients(rng, n, len(groups_a)) for n in (50, 50, 20)])
    swaps = np.concatenate([draw_swaps(rng, n, len(groups_a)) for n in (50, 50, 20)])
    observed = slow_dice(a.to_dict("records")) - slow_dice(b.to_dict("records"))
    drawn = [slow_difference(groups_a, groups_b, row, np.zeros(len(row))) for row in counts]
    ones = np.ones(len(groups_a))
    swapped = [slow_difference(groups_a, groups_b, ones, row) for row in swaps]
    extreme = sum(abs(d) >= abs(observed) - 1e-12 for d in swapped)

    test = paired_test(a, b, replicates=replicates, seed=9)
    assert test.difference == observed
    assert (test.ci_low, test.ci_high) == tuple(np.percentile(drawn, [2.5, 97.5]))
    assert test.p == (1 + extreme) / (replicates + 1)


def slow_difference(groups_a, groups_b, times, swap):
    first, second = [], []
    for patient, n, s in zip(groups_a, times, swap, strict=True):
        rows = groups_a[patient] * int(n), groups_b[patient] * int(n)
        first += rows[1] if s else rows[0]
        second += rows[0] if s else rows[1]
    return slow_dice(first) - slow_dice(second)


def test_p_agrees_with_all_possible_swaps():
    a, b = random_pair(8, images=10, patients=5)
    groups = by_patient(a), by_patient(b)
    patients = len(groups[0])
    ones = np.ones(patients)
    every = [
        abs(slow_difference(*groups, ones, swap))
        for swap in itertools.product([0, 1], repeat=patients)
    ]
    exact = np.mean(np.array(every) >= every[0] - 1e-12)
    test = paired_test(a, b, replicates=20_000, seed=0)
    assert test.p == pytest.approx(exact, abs=0.015)
    assert 0 < exact < 1


def test_equal_methods_differ_by_nothing_with_p_one():
    a, _ = random_pair(0)
    test = paired_test(a, a, replicates=100, seed=0)
    assert (test.difference, test.ci_low, test.ci_high, test.p) == (0, 0, 0, 1)


def test_swapping_the_two_methods_flips_the_sign_only():
    a, b = random_pair(6)
    there, back = (paired_test(*pair, replicates=500, seed=1) for pair in ((a, b), (b, a)))
    assert back.difference == -there.difference
    assert back.ci_low == pytest.approx(-there.ci_high)
    assert back.p == there.p


def test_several_seeds_of_a_patient_are_one_cluster():
    """Repeating the same rows as another seed adds no evidence: p stays what it was."""
    a, b = random_pair(7)
    once = paired_test(a, b, replicates=2000, seed=2)
    twice = paired_test(pd.concat([a, a]), pd.concat([b, b]), replicates=2000, seed=2)
    assert twice == once


def test_same_seed_same_numbers_and_another_seed_others():
    a, b = random_pair(3)
    first, again, other = (paired_test(a, b, replicates=300, seed=s) for s in (1, 1, 2))
    assert first == again
    assert (first.ci_low, first.ci_high) != (other.ci_low, other.ci_high)


@pytest.mark.parametrize("change", ["image", "patient", "truth", "seeds"])
def test_results_that_cannot_be_paired_are_refused(change):
    a, b = random_pair(0)
    if change == "image":
        b.loc[0, "id"] = "other"
    elif change == "patient":
        b.loc[0, "patient"] = "other"
    elif change == "truth":
        b.loc[0, "fn"] += 1
    else:
        b = pd.concat([b, b])
    with pytest.raises(UserError, match="cannot be paired"):
        paired_test(a, b, replicates=10, seed=0)


def test_seeds_tested_on_other_patients_are_not_pooled():
    a, b = random_pair(0)
    b["patient"] = "somebody else"
    with pytest.raises(UserError, match="patients that are not the same"):
        bootstrap_ci([a, b], replicates=10, seed=0)


def test_holm_multiplies_by_the_hypotheses_that_are_left():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
