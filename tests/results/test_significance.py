import itertools

import numpy as np
import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results import resampling
from semimedref.results.measures import DICE, HD95, LESION_F1, MIOU, NSD
from semimedref.results.resampling import (
    SEEDS,
    SWAPS,
    Resampling,
    draw_patients,
    draw_seeds,
    draw_swaps,
    stream,
)
from semimedref.results.significance import (
    bootstrap,
    bootstrap_ci,
    holm,
    interval,
    paired_tests,
    randomization,
    scores,
)


def often(replicates=200, seed=0):
    return Resampling(bootstrap=replicates, randomization=replicates, seed=seed, locked="s42")


def paired_test(a, b, *, replicates, seed=0):
    """Dice of one training seed each."""
    return paired_tests([a], [b], resampling=often(replicates, seed))["dice"]


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


def slow_miou(rows):
    tp, fp, fn = (sum(int(row[name]) for row in rows) for name in ("tp", "fp", "fn"))
    return tp / (tp + fp + fn) if tp + fp + fn else 1.0


def by_patient(table):
    return {patient: rows.to_dict("records") for patient, rows in table.groupby("patient")}


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
    counts = draw_patients(stream(3), 100, len(groups[0]))
    chosen = draw_seeds(stream(3, SEEDS, 0), 100, 2)
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


@pytest.mark.parametrize(("metric", "slow"), [("dice", slow_dice), ("miou", slow_miou)])
def test_paired_test_equals_the_loop_over_images_exactly(metric, slow):
    a, b = random_pair(4)
    groups_a, groups_b = by_patient(a), by_patient(b)
    counts = draw_patients(stream(9), 120, len(groups_a))
    swaps = draw_swaps(stream(9, SWAPS), 120, len(groups_a))
    observed = slow(a.to_dict("records")) - slow(b.to_dict("records"))
    zeros, ones = np.zeros(len(groups_a)), np.ones(len(groups_a))
    drawn = [slow_difference(groups_a, groups_b, row, zeros, slow) for row in counts]
    swapped = [slow_difference(groups_a, groups_b, ones, row, slow) for row in swaps]
    extreme = sum(abs(d) >= abs(observed) - 1e-12 for d in swapped)

    test = paired_tests([a], [b], resampling=often(120, seed=9))[metric]
    assert test.difference == observed
    assert (test.ci_low, test.ci_high) == tuple(np.percentile(drawn, [2.5, 97.5]))
    assert test.p == (1 + extreme) / 121
    assert test.hierarchical is None


def test_the_number_of_replicates_drawn_at_once_changes_nothing(monkeypatch):
    a, b = random_pair(4)
    once = paired_tests([a, b], [b, a], resampling=often(120))
    monkeypatch.setattr(resampling, "_DRAWS", 100)  # 8 replicates of 12 patients
    monkeypatch.setattr(resampling, "_BLOCK", 52)
    assert paired_tests([a, b], [b, a], resampling=often(120)) == once


def slow_difference(groups_a, groups_b, times, swap, slow=slow_dice):
    first, second = [], []
    for patient, n, s in zip(groups_a, times, swap, strict=True):
        rows = groups_a[patient] * int(n), groups_b[patient] * int(n)
        first += rows[1] if s else rows[0]
        second += rows[0] if s else rows[1]
    return slow(first) - slow(second)


@pytest.mark.parametrize(("metric", "slow"), [("dice", slow_dice), ("miou", slow_miou)])
def test_p_agrees_with_all_possible_swaps_within_monte_carlo_error(metric, slow):
    a, b = random_pair(8, images=16, patients=8)
    groups = by_patient(a), by_patient(b)
    patients = len(groups[0])
    every = [
        abs(slow_difference(*groups, np.ones(patients), swap, slow))
        for swap in itertools.product([0, 1], repeat=patients)
    ]
    exact = np.mean(np.array(every) >= every[0] - 1e-12)
    p = randomization([a], [b], resampling=often(20_000))[metric]
    assert 0.01 < exact < 0.99
    assert abs(p - exact) < 4 * np.sqrt(exact * (1 - exact) / 20_000)


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
    twice = paired_tests([a, a], [b, b], resampling=often(2000, seed=2))["dice"]
    assert (twice.difference, twice.ci_low, twice.ci_high, twice.p) == (
        once.difference, once.ci_low, once.ci_high, once.p,
    )  # fmt: skip
    assert twice.hierarchical == (once.ci_low, once.ci_high)


def test_same_seed_same_numbers_and_another_seed_others():
    a, b = random_pair(3)
    first, again, other = (paired_test(a, b, replicates=300, seed=s) for s in (1, 1, 2))
    assert first == again
    assert (first.ci_low, first.ci_high) != (other.ci_low, other.ci_high)


def test_holm_multiplies_by_the_hypotheses_that_are_left():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_over_four_hypotheses_with_no_extreme_swap_gives_the_papers_2e_minus_5():
    """Paper, table of clustered significance: p = 1 / 200001 for each of four."""
    a, b = random_pair(0, images=400, patients=400)
    a["tp"], a["fn"] = a["tp"] + a["fn"], 0  # perfect in every patient: no swap is as extreme
    paper = Resampling(bootstrap=1, randomization=200_000, seed=0, locked="s42")
    two = list(randomization([a], [b], resampling=paper).values())
    assert two == [1 / 200_001] * 2
    assert holm(two + two) == [4 / 200_001] * 4
    assert f"{holm(two + two)[0]:.2e}" == "2.00e-05"


def test_difference_over_seeds_is_the_difference_of_the_means():
    a, b = random_pair(1)
    c, d = random_pair(1)
    c["tp"], c["fn"] = c["tp"] - 1, c["fn"] + 1
    test = paired_tests([a, c], [b, d], resampling=often(50))["dice"]
    one = [slow_dice(t.to_dict("records")) for t in (a, c, b, d)]
    assert test.difference == pytest.approx(
        (one[0] + one[1]) / 2 - (one[2] + one[3]) / 2, abs=1e-15
    )


def test_hierarchical_difference_draws_seeds_of_each_method_and_common_patients():
    a, b = random_pair(1)
    c, d = random_pair(5)
    c["patient"] = d["patient"] = a["patient"]
    sides = [[by_patient(a), by_patient(c)], [by_patient(b), by_patient(d)]]
    counts = draw_patients(stream(3), 80, len(sides[0][0]))
    chosen = [draw_seeds(stream(3, SEEDS, side), 80, 2) for side in (0, 1)]
    slow = []
    for at, row in enumerate(counts):
        means = []
        for side, groups in enumerate(sides):
            picked = [groups[seed] for seed in chosen[side][at]]
            drawn = [
                [r for n, rows in zip(row, g.values(), strict=True) for r in rows * int(n)]
                for g in picked
            ]
            means.append(sum(slow_dice(rows) for rows in drawn) / 2)
        slow.append(means[0] - means[1])
    first, second = bootstrap([[a, c], [b, d]], resampling=often(80, seed=3), over_seeds=True)
    assert first["dice"] - second["dice"] == pytest.approx(slow, abs=1e-14)


def test_seeds_that_differ_make_the_hierarchical_interval_wider():
    a, b = random_pair(1)
    better = a.assign(tp=a["tp"] + a["fn"], fn=0)
    test = paired_tests([a, better], [b, b], resampling=often(1000))["dice"]
    low, high = test.hierarchical
    assert high - low > 1.5 * (test.ci_high - test.ci_low)


def test_lesion_and_boundary_scores_are_tested_from_the_same_draws():
    a, b = random_pair(2)
    for table, shift in ((a, 0.1), (b, 0.0)):
        table["nsd"] = np.linspace(0.2, 0.8, len(table)) + shift
        table["hd95"] = np.arange(len(table)) - 10 * shift
        table["lesions"], table["lesions_found"] = 2, 1 + int(shift > 0)
        table["lesions_false"] = 1
    a.loc[3, "hd95"] = b.loc[3, "hd95"] = np.nan
    measures = (DICE, MIOU, NSD, HD95, LESION_F1)
    tests = paired_tests([a], [b], resampling=often(300), measures=measures)
    assert tests["nsd"].difference == pytest.approx(0.1)
    assert (tests["nsd"].ci_low, tests["nsd"].ci_high) == pytest.approx((0.1, 0.1))
    assert tests["hd95"].difference == pytest.approx(-1)
    # 2 of 2 found with 1 false: 4/5; 1 of 2 found with 1 false: 2/4.
    assert tests["lesion_f1"].difference == pytest.approx(0.8 - 0.5)
    assert tests["lesion_f1"].p == 1 / 301
    assert tests["dice"] == paired_tests([a], [b], resampling=often(300))["dice"]
    assert scores([a], [HD95])["hd95"] == pytest.approx(np.delete(np.arange(40), 3).mean() - 1)


def test_interval_leaves_out_replicates_without_a_value():
    assert interval(np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(interval(np.array([np.nan]))).all()


@pytest.mark.parametrize("wrong", [{"bootstrap": 0}, {"randomization": 1.5}, {"seed": -1}])
def test_numbers_of_replicates_that_make_no_sense_are_refused(wrong):
    given = {"bootstrap": 10, "randomization": 10, "seed": 0, "locked": "s42"} | wrong
    with pytest.raises(UserError, match=r"statistics\.\w+=.*expected a whole number"):
        Resampling(**given)
