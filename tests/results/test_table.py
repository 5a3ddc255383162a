import dataclasses
import math

import pytest

from semimedref.errors import UserError
from semimedref.results.table import build_table


def images(tp, fp, fn):
    return [("i0", "p0", tp, fp, fn), ("i1", "p1", 10, 5, 5)]


def test_mean_and_sample_deviation_over_seeds_are_those_worked_out_by_hand(lab):
    for seed, miou in (("s0", 0.50), ("s1", 0.60), ("s42", 0.70)):
        lab.finish(lab.cell(seed=seed), miou=miou)
    (entry,) = build_table(lab.experiment).entries
    assert entry.scores["miou"].mean == pytest.approx(0.60)
    assert entry.scores["miou"].std == pytest.approx(math.sqrt((0.01 + 0.01) / 2))  # n - 1
    assert entry.scores["miou"].n == 3


def test_one_seed_has_no_deviation_but_an_interval_around_its_dice(lab):
    lab.finish(lab.cell(), images(90, 10, 10))
    (entry,) = build_table(lab.experiment).entries
    score = entry.scores["dice"]
    assert score.std is None
    assert score.mean == pytest.approx(2 * 100 / (2 * 100 + 15 + 15))
    # Two patients: a draw is (p0, p0), (p0, p1) or (p1, p1), the ends are the pure draws.
    assert score.ci == pytest.approx((20 / 30, 180 / 200))


def test_table_is_the_same_every_time(lab):
    lab.finish(lab.cell(), images(90, 10, 10))
    assert build_table(lab.experiment) == build_table(lab.experiment)


def test_interval_of_several_seeds_covers_the_spread_between_them(lab):
    lab.finish(lab.cell(seed="s0"), [("i0", "p0", 50, 0, 50)])
    lab.finish(lab.cell(seed="s1"), [("i0", "p0", 90, 0, 10)])
    (entry,) = build_table(lab.experiment).entries
    low, high = 100 / 150, 180 / 190
    assert entry.scores["dice"].ci == pytest.approx((low, high))  # one patient: only seeds vary
    assert entry.scores["dice"].mean == pytest.approx((low + high) / 2)


def test_unfinished_cells_are_counted_but_not_averaged(lab):
    lab.finish(lab.cell(seed="s0"), miou=0.5)
    lab.start(lab.cell(seed="s1"))
    (entry,) = build_table(lab.experiment).entries
    assert entry.scores["miou"].mean == 0.5
    assert (len(entry.done), len(entry.runs)) == (1, 2)
    assert not entry.complete


def test_entries_are_grouped_by_column_in_the_order_of_the_experiment(lab):
    for row in ("B", "A"):
        for ratio in ("15pct", "2pct"):
            lab.cell(row=row, ratio=ratio)
    table = build_table(lab.experiment)
    lines = [(*entry.column, entry.row) for entry in table.entries]
    assert lines == [("15pct", "B"), ("15pct", "A"), ("2pct", "B"), ("2pct", "A")]
    assert table.rows == ["B", "A"]


def test_text_gap_is_shown_without_being_asked_for(lab):
    lab.finish(lab.cell())
    assert lab.metrics == ["dice", "miou"]
    assert build_table(lab.experiment).metrics == ("dice", "miou", "text_gap")


def test_score_that_is_null_or_not_a_number_is_no_value(lab):
    lab.finish(lab.cell(seed="s0"), miou=None)
    lab.finish(lab.cell(seed="s1"), miou=float("nan"))
    (entry,) = build_table(lab.experiment).entries
    assert entry.scores["miou"].mean is None
    assert entry.scores["miou"].n == 0


def test_two_rows_may_share_a_run(lab):
    cell = lab.cell(row="Baseline")
    lab.finish(cell, miou=0.5)
    lab.cells.append(type(cell)(**{**vars(cell), "row": "Also baseline"}))
    entries = build_table(lab.experiment).entries
    assert [entry.scores["miou"].mean for entry in entries] == [0.5, 0.5]


def test_oracle_is_taken_from_the_results(lab):
    lab.finish(lab.cell(seed="s0"), dice_text_blind_oracle=0.58)
    lab.finish(lab.cell(seed="s1"), dice_text_blind_oracle=None)
    assert build_table(lab.experiment).oracles == [0.58]


def test_swept_parameter_outside_the_table_is_refused_not_averaged(lab):
    lab.cell(model="mmi_unet")
    lab.cell(model="lavt")
    with pytest.raises(UserError, match=r"two cells for seed='s0'.*model"):
        build_table(lab.experiment)


def test_command_of_a_cell_is_quoted_for_the_shell(lab):
    cell = lab.cell()
    experiment = dataclasses.replace(lab.experiment, overrides=("experiment=quickstart", "a=b c"))
    (run,) = build_table(experiment).runs
    assert run.command == (f"semimedref train -m experiment=quickstart 'a=b c' only={cell.name}")


def test_warnings_about_the_data_are_repeated_once_under_the_table():
    from types import SimpleNamespace

    from semimedref.results.notes import data_warnings

    def run(result):
        return SimpleNamespace(
            result=result, cell=SimpleNamespace(config={"dataset": {"name": "mosmed_plus"}})
        )

    warned = run({"data": {"warnings": ["3 studies cross splits"]}})
    quiet = [run(None), run({"test": {}}), run({"data": {"warnings": []}})]
    assert data_warnings([warned, *quiet, warned]) == (
        "Data, mosmed_plus: 3 studies cross splits.",
    )
