import numpy as np
import pytest

from semimedref.results import render
from semimedref.results.table import build_table
from semimedref.results.variance import components


def test_components_of_a_table_worked_out_by_hand():
    # columns +-1 around 0, seeds +-2, no rest: MS_columns = 2 * 2, MS_seeds = 2 * 8
    table = np.array([[-3.0, 1.0], [-1.0, 3.0]])
    columns, seeds, rest = components(table)
    assert (columns, seeds, rest) == pytest.approx((np.sqrt(2), np.sqrt(8), 0.0))


def test_components_are_found_again_in_simulated_tables():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        columns, seeds = rng.normal(0, 0.8, (8, 1)), rng.normal(0, 0.3, (1, 6))
        found.append(np.square(components(columns + seeds + rng.normal(0, 0.5, (8, 6)))))
    # truncation at zero lifts the small ones a little
    assert np.sqrt(np.mean(found, axis=0)) == pytest.approx([0.8, 0.3, 0.5], abs=0.05)


def test_pure_noise_has_no_negative_variance():
    parts = components(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert parts[0] == parts[1] == 0.0


def test_the_table_says_where_the_spread_comes_from(lab):
    lab.options["variance"] = "ratio"
    for ratio, base in (("2pct", 60), ("5pct", 80)):
        for seed, more in (("s0", 0), ("s1", 4)):
            tp = base + more
            rows = [(f"i{i}", f"p{i}", tp, 10, 100 - tp) for i in range(4)]
            lab.finish(lab.cell(ratio=ratio, seed=seed), rows)
    (line,) = [x for x in render.findings(build_table(lab.experiment), []) if "components" in x]
    assert line.startswith("Baseline: standard deviation of Dice between 2 values of ratio")
