"""Cases are chosen by the stated rule: worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results.figure.cases import at_quantile, choose, dice_table


def test_quantiles_of_the_mean_then_the_largest_gain_and_loss():
    ids = [f"c{k:02d}" for k in range(11)]
    first = np.linspace(0, 1, 11)  # mean Dice rises with the number
    last = first.copy()
    last[3] += 0.06  # still between its neighbors
    last[7] -= 0.04
    assert choose(ids, np.stack([first, last], 1)) == {
        "c01": "10 % quantile",  # place 0.1 · 10 = 1
        "c05": "50 % quantile",
        "c09": "90 % quantile",
        "c03": "largest gain",
        "c07": "largest loss",
    }


def test_ties_go_by_id_and_a_case_is_shown_once():
    ids = ["b", "c", "a"]
    assert choose(ids, np.full((3, 2), 0.5)) == {"a": "10 % quantile", "b": "50 % quantile",
                                                 "c": "90 % quantile"}  # fmt: skip
    two = choose(["b", "a"], np.array([[0.2, 0.9], [0.4, 0.1]]))
    assert two == {"a": "10 % quantile", "b": "50 % quantile"}


def test_one_row_has_neither_gain_nor_loss():
    assert list(choose(["a"], np.array([[0.3]]))) == ["a"]


@pytest.mark.parametrize(("q", "n", "place"), [(0.1, 5, 0), (0.1, 6, 1), (0.5, 4, 2), (0.9, 1, 0)])
def test_place_of_a_quantile(q, n, place):
    assert at_quantile(q, n) == place


def test_rows_are_joined_by_id_not_by_place():
    a = pd.DataFrame({"id": ["x", "y"], "dice": [0.1, 0.2]})
    b = pd.DataFrame({"id": ["y", "x"], "dice": [0.4, 0.3]})
    ids, dice = dice_table({"A": a, "B": b})
    assert ids == ["x", "y"] and dice.tolist() == [[0.1, 0.3], [0.2, 0.4]]
    with pytest.raises(UserError, match="other images"):
        dice_table({"A": a, "B": b.assign(id=["y", "z"])})
