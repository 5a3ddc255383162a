import json

import numpy as np
import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results import compare_text
from semimedref.results.compare import Side, compare
from semimedref.results.measures import DICE, MIOU
from semimedref.results.resampling import Resampling
from semimedref.results.significance import holm, paired_tests

OFTEN = Resampling(bootstrap=300, randomization=300, seed=0, locked="s42")


def table(tp, **columns):
    rows = [(f"i{i}", f"p{i // 2}", tp + i, 10, 100 - tp - i) for i in range(10)]
    return pd.DataFrame(rows, columns=["id", "patient", "tp", "fp", "fn"]).assign(**columns)


def side(name, *frames):
    return Side(name, tuple(f"{name}{i}.csv" for i in range(len(frames))), frames)


def test_the_first_method_is_tested_against_each_other_with_holm_over_all():
    a, b, c = (side(name, table(tp)) for name, tp in (("a", 60), ("b", 55), ("c", 60)))
    found = compare([a, b, c], resampling=OFTEN)
    assert [(d.a, d.b, d.measure.name) for d in found.differences] == [
        ("a", "b", "dice"), ("a", "b", "miou"), ("a", "c", "dice"), ("a", "c", "miou"),
    ]  # fmt: skip
    tests = paired_tests(a.frames, b.frames, resampling=OFTEN)
    assert found.differences[0].test == tests["dice"]
    p = [d.test.p for d in found.differences]
    assert [d.p_holm for d in found.differences] == holm(p)
    assert (found.images, found.patients) == (10, 5)
    assert found.differences[2].test.p == 1


def test_every_method_has_its_score_and_interval():
    found = compare([side("a", table(60)), side("b", table(50))], resampling=OFTEN)
    dice = next(e for e in found.estimates if (e.method, e.measure) == ("a", DICE))
    assert dice.value == 2 * 645 / (2 * 645 + 100 + 355)
    assert dice.ci[0] < dice.value < dice.ci[1]
    assert [e.measure for e in found.estimates] == [DICE, MIOU] * 2


def test_several_seeds_give_an_interval_over_seeds_too():
    a = side("a", table(60), table(66))
    found = compare([a, side("b", table(50), table(51))], resampling=OFTEN)
    test = found.differences[0].test
    assert test.hierarchical[1] - test.hierarchical[0] > test.ci_high - test.ci_low
    assert "over seeds, too" in compare_text.terminal(found)
    assert "2 seeds each (means over seeds)" in compare_text.terminal(found)


def test_columns_that_all_tables_have_are_compared_and_others_are_not():
    more = {"nsd": 0.5, "lesions": 2, "lesions_found": 1, "lesions_false": 0}
    full, half = table(60, hd95=1.0, **more), table(50, **more)
    found = compare([side("a", full), side("b", half)], resampling=OFTEN)
    assert [d.measure.name for d in found.differences] == ["dice", "miou", "nsd", "lesion_f1"]


def test_an_image_without_a_distance_is_left_out_for_all_methods_and_counted():
    far = np.arange(10.0)
    ours, theirs = far.copy(), far + 2
    theirs[9] = np.nan  # found nothing in the hardest image
    found = compare(
        [side("a", table(60, hd95=ours)), side("b", table(50, hd95=theirs).iloc[::-1])],
        resampling=OFTEN,
        metrics=["hd95"],
    )
    assert [e.value for e in found.estimates] == pytest.approx([4.0, 6.0])
    assert found.differences[0].test.difference == pytest.approx(-2)
    assert found.notes == (
        "hd95: 1 of 10 images have no value for some method and are left out for all",
    )


def test_any_numeric_column_of_ones_own_can_be_asked_for():
    a, b = table(60, asd=3.0), table(50, asd=["1", "1"] * 5)
    found = compare([side("a", a), side("b", b)], resampling=OFTEN, metrics=["asd", "dice"])
    assert [d.measure.name for d in found.differences] == ["asd", "dice"]
    assert found.differences[0].test.difference == 2.0
    assert "+2.00" in compare_text.terminal(found)  # no percent


def test_a_metric_without_its_column_is_refused_with_the_possible_ones():
    with pytest.raises(UserError, match=r"metrics=nsd needs the column 'nsd'.*of dice, miou,"):
        compare([side("a", table(60))] * 2, resampling=OFTEN, metrics=["nsd"])


def test_patients_of_one_table_serve_the_other():
    bare = table(50).drop(columns="patient")
    found = compare([side("a", table(60)), side("b", bare)], resampling=OFTEN)
    assert found.patients == 5 and "takes the patients" in found.notes[0]
    found = compare([side("a", bare), side("b", bare)], resampling=OFTEN)
    assert found.patients == 10 and "a patient of its own" in found.notes[0]


def test_text_json_and_csv_hold_the_same_numbers():
    found = compare([side("a", table(60)), side("b", table(50))], resampling=OFTEN)
    test = found.differences[0].test
    text = compare_text.terminal(found)
    assert f"{100 * test.difference:+.2f}" in text and "Holm over 2 tests" in text
    plain = json.loads(compare_text.as_json(found))
    assert plain["differences"][0]["difference"] == test.difference
    assert plain["differences"][0]["ci_hierarchical"] is None
    lines = [line.split(",") for line in compare_text.as_csv(found).splitlines()]
    assert {len(line) for line in lines} == {10}
    assert float(lines[5][3]) == test.difference and float(lines[5][9]) == test.p * 2


def test_small_p_values_keep_their_digits():
    assert compare_text.probability(4 / 200_001) == "2.00e-05"
    assert compare_text.probability(0.0312) == "0.031"


def test_a_score_without_a_value_is_a_dash_and_null():
    nan = table(60, hd95=np.nan)
    found = compare([side("a", nan), side("b", nan)], resampling=OFTEN, metrics=["hd95"])
    assert "–" in compare_text.terminal(found)
    assert json.loads(compare_text.as_json(found))["scores"][0]["value"] is None
