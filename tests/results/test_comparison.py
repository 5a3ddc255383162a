from dataclasses import replace

import pytest

from semimedref.results.comparison import compare_rows
from semimedref.results.table import build_table


def images(tp):
    return [(f"i{i}", f"p{i // 2}", tp + i, 10, 100 - tp - i) for i in range(10)]


def test_rows_are_compared_with_the_first_row_of_their_column(lab):
    for ratio in ("2pct", "15pct"):
        for row, tp in (("A", 50), ("B", 60), ("C", 70)):
            lab.finish(lab.cell(row=row, ratio=ratio), images(tp))
    found = compare_rows(build_table(lab.experiment))
    assert [(c.column[0], c.row, c.reference) for c in found] == [
        ("2pct", "B", "A"),
        ("2pct", "C", "A"),
        ("15pct", "B", "A"),
        ("15pct", "C", "A"),
    ]
    assert all(c.test.difference > 0 for c in found)
    assert found[0].p_holm == pytest.approx(min(1, 2 * min(c.test.p for c in found[:2])))


def test_steps_of_a_ladder_are_compared_too(lab):
    for row, tp in (("A", 50), ("B", 60), ("C", 70)):
        lab.finish(lab.cell(row=row), images(tp))
    found = compare_rows(build_table(replace(lab.experiment, ladder=True)))
    assert [(c.row, c.reference) for c in found] == [("B", "A"), ("C", "A"), ("C", "B")]
    assert found[1].p_holm >= found[1].test.p * 1.5 or found[1].p_holm == 1


def test_controls_are_no_steps_of_a_ladder(lab):
    for row, tp in (("A", 50), ("No text", 20), ("B", 60), ("C", 70)):
        lab.finish(lab.cell(row=row), images(tp))
    ladder = replace(lab.experiment, ladder=True, controls=("No text",))
    found = [(c.row, c.reference) for c in compare_rows(build_table(ladder))]
    assert found == [("No text", "A"), ("B", "A"), ("C", "A"), ("C", "B")]


def test_only_seeds_that_both_rows_have_are_paired(lab):
    for seed in ("s0", "s1"):
        lab.finish(lab.cell(row="A", seed=seed), images(50))
    lab.finish(lab.cell(row="B", seed="s1"), images(60))
    lab.finish(lab.cell(row="B", seed="s42"), images(90))
    (comparison,) = compare_rows(build_table(lab.experiment))
    assert comparison.seeds == ("s1",)
    assert (comparison.images, comparison.patients) == (10, 5)
    expected = 2 * 645 / (2 * 645 + 100 + 355) - 2 * 545 / (2 * 545 + 100 + 455)
    assert comparison.test.difference == pytest.approx(expected)


def test_unfinished_and_shared_runs_are_not_compared(lab):
    cell = lab.cell(row="A")
    lab.finish(cell, images(50))
    lab.cells.append(type(cell)(**{**vars(cell), "row": "A again"}))
    lab.cell(row="Not started")
    assert compare_rows(build_table(lab.experiment)) == []
