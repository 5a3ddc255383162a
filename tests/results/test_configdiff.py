import pytest

from semimedref.errors import UserError
from semimedref.results.configdiff import differences, matching_cells, render


def test_only_leaves_that_differ_are_listed_in_order():
    a = {"b": {"x": 1, "y": [1, 2]}, "a": None, "same": {"deep": True}}
    b = {"b": {"x": 1.5, "y": [1, 2]}, "same": {"deep": True}, "c": "new"}
    found = [(d.key, d.a, d.b) for d in differences(a, b)]
    assert found == [("a", "null", "–"), ("b.x", "1", "1.5"), ("c", "–", '"new"')]


def test_group_that_another_one_repeats_is_listed_once():
    a, b = ({"augment": {"p": p}, "method": {"views": {"p": p}, "lr": 1}} for p in (0.1, 0.5))
    assert [d.key for d in differences(a, b)] == ["augment.p"]
    b["method"]["views"] = {"p": 0.9}  # no copy any more
    assert [d.key for d in differences(a, b)] == ["augment.p", "method.views.p"]


def test_a_number_and_its_text_differ():
    assert len(differences({"a": 1}, {"a": "1"})) == 1


def test_rows_are_compared_at_the_same_point_of_the_table(lab):
    lab.cell(row="A", ratio="2pct")
    lab.cell(row="B", ratio="15pct")
    lab.cell(row="B", ratio="2pct")
    first, second = matching_cells(lab.experiment, "A", "B")
    assert first.point == second.point == {"ratio": "2pct", "seed": "s0"}


def test_unknown_row_lists_the_rows(lab):
    lab.cell(row="A")
    with pytest.raises(UserError, match=r"no row 'C'.*\"A\""):
        matching_cells(lab.experiment, "A", "C")


def test_equal_configurations_are_said_to_be_equal():
    assert render([], "a", "b") == "a and b have the same configuration.\n"
