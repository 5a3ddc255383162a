import csv
import json
from dataclasses import replace

import pytest

from semimedref.errors import UserError
from semimedref.results import hypotheses_text
from semimedref.results.hypotheses import family_of
from semimedref.results.resampling import Resampling

OFTEN = Resampling(bootstrap=200, randomization=500, seed=0, locked="s42")


def images(tp, patients=40):
    return [(f"i{i}", f"p{i // 2}", tp + i % 7, 10, 100 - tp - i % 7) for i in range(2 * patients)]


def finish(lab, row, tp, seed="s42", ratio="2pct"):
    return lab.finish(lab.cell(row=row, seed=seed, ratio=ratio), images(tp))


def test_named_pairs_are_tested_on_dice_and_miou_in_one_family(lab):
    for row, tp in (("A", 50), ("Ours (A)", 60), ("B", 40), ("Ours (B)", 55)):
        finish(lab, row, tp)
    pairs = (("Ours (A)", "A"), ("Ours (B)", "B"))
    family = family_of(replace(lab.experiment, comparisons=pairs), resampling=OFTEN, seeds="s42")
    assert [(h.row, h.reference, h.measure.name) for h in family.hypotheses] == [
        ("Ours (A)", "A", "dice"), ("Ours (A)", "A", "miou"),
        ("Ours (B)", "B", "dice"), ("Ours (B)", "B", "miou"),
    ]  # fmt: skip
    # Every patient gains, so no swap is as extreme: p = 1 / 501 for each of four.
    assert {h.test.p for h in family.hypotheses} == {1 / 501}
    assert {h.p_holm for h in family.hypotheses} == {4 / 501}
    assert (family.hypotheses[0].images, family.hypotheses[0].patients) == (80, 40)


def test_without_names_every_row_is_tested_against_the_first_within_its_column(lab):
    for ratio in ("2pct", "15pct"):
        for row, tp in (("A", 50), ("B", 60), ("C", 61)):
            finish(lab, row, tp, ratio=ratio)
    family = family_of(lab.experiment, resampling=OFTEN, seeds="s42")
    found = [
        (h.column[0], h.row, h.reference) for h in family.hypotheses if h.measure.name == "dice"
    ]
    assert found == [
        ("2pct", "B", "A"),
        ("2pct", "C", "A"),
        ("15pct", "B", "A"),
        ("15pct", "C", "A"),
    ]
    assert {h.p_holm for h in family.hypotheses} == {4 / 501}  # four tests in a column, not eight


def test_the_locked_seed_is_tested_alone_and_all_seeds_by_their_means(lab):
    for seed, tp in (("s0", 70), ("s42", 60)):
        finish(lab, "A", 50, seed=seed)
        finish(lab, "B", tp, seed=seed)
    one = family_of(lab.experiment, resampling=OFTEN, seeds="s42").hypotheses[0]
    both = family_of(lab.experiment, resampling=OFTEN, seeds="all").hypotheses[0]
    assert (one.seeds, both.seeds) == (("s42",), ("s0", "s42"))
    assert one.test.hierarchical is None and both.test.hierarchical is not None
    assert both.test.difference > one.test.difference


def test_what_is_not_finished_is_named_with_its_command(lab):
    finish(lab, "A", 50)
    lab.cell(row="B", seed="s42")
    finish(lab, "C", 50, seed="s0")
    family = family_of(lab.experiment, resampling=OFTEN, seeds="s42")
    assert family.hypotheses == ()
    unfinished, no_seed = family.untested
    assert "B, 2pct, minus A: missing, semimedref train -m" in unfinished
    assert "no cell s42 in both" in no_seed
    assert "not tested: B" in hypotheses_text.terminal(family)
    assert "- Not tested: B" in hypotheses_text.markdown(family)


def test_a_row_that_is_only_reported_is_said_to_be_not_built(lab):
    finish(lab, "A", 50)
    experiment = replace(lab.experiment, rows=("A", "Rival"), comparisons=(("A", "Rival"),))
    family = family_of(experiment, resampling=OFTEN, seeds="s42")
    assert family.untested == ("A, 2pct, minus Rival: not built here, the paper's values only",)


def test_rows_that_share_their_runs_are_no_comparison(lab):
    cell = lab.cell(row="A", seed="s42")
    lab.finish(cell, images(50))
    lab.cells.append(replace(cell, row="A again"))
    family = family_of(lab.experiment, resampling=OFTEN, seeds="s42")
    assert (family.hypotheses, family.untested) == ((), ())


def test_a_pair_that_names_no_row_is_refused(lab):
    finish(lab, "A", 50)
    wrong = replace(lab.experiment, comparisons=(("Ours", "A"),))
    with pytest.raises(UserError, match="names 'Ours', which is no row; expected of A"):
        family_of(wrong, resampling=OFTEN, seeds="s42")


def test_every_format_holds_the_same_numbers(lab):
    finish(lab, "A", 50)
    finish(lab, "B", 60)
    family = family_of(lab.experiment, resampling=OFTEN, seeds="s42")
    test = family.hypotheses[0].test
    points = f"{100 * test.difference:+.2f}"
    for text in (hypotheses_text.terminal(family), hypotheses_text.markdown(family)):
        assert points in text and "2 %" in text and "0.004" in text
        assert "not about training again" in text
    (first, _) = csv.DictReader(hypotheses_text.as_csv(family).splitlines())
    assert float(first["delta_pp"]) == 100 * test.difference
    assert (first["metric"], first["ratio"], first["seeds"]) == ("dice", "2pct", "s42")
    plain = json.loads(hypotheses_text.as_json(family))
    assert plain["hypotheses"][1]["metric"] == "miou"
    assert plain["hypotheses"][0]["ci"] == [test.ci_low, test.ci_high]
