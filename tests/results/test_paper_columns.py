"""The paper's values beside ours: when they may stand there, and how they are compared."""

import csv
import io

import pytest

from semimedref.errors import UserError
from semimedref.results import latex, render
from semimedref.results.comparison import compare_rows
from semimedref.results.table import build_table
from tests.results.conftest import make_config

MODEL = {"model": {"_target_": "semimedref.model.mmi_unet.MMIUNet"}}


def config(model=MODEL, **extra):
    made = make_config(dataset={"name": "qata_cov19"})
    made["method"] = made["method"] | model
    return made | extra


def images(tp):
    return [(f"i{i}", f"p{i}", tp, 100 - tp, 100 - tp) for i in range(4)]  # Dice = tp / 100


@pytest.fixture
def paper_lab(lab):
    place = {"dataset": "qata_cov19", "ratio": "2pct"}
    lab.options |= {
        "paper": "component_ablation",
        "scale": "paper",
        "rows": ("Baseline", "+ T-S EMA", "+ PACL (Ours)"),
        "places": (place,),
    }
    return lab


def cells(table):
    return {line[1]: line[2:] for line in render.body(table)}


def test_ours_the_papers_value_the_difference_and_the_noise_stand_side_by_side(paper_lab):
    for seed, tp in (("s0", 83), ("s1", 84), ("s42", 85)):
        paper_lab.finish(paper_lab.cell(seed=seed, config=config()), images(tp))
    table = build_table(paper_lab.experiment)
    head = render.header(table)
    assert head[2:6] == ["Dice", "95 % CI", "Dice, paper", "Δ"]
    # paper 84.63; one run: 4.3027 * sqrt(1/3 + 1) = 4.97 points of noise
    line = cells(table)["Baseline"]
    assert (line[0], line[2], line[3]) == ("84.00 ± 1.00", "84.63", "-0.63 within")


def test_a_row_that_is_not_built_shows_the_reported_value_and_says_so(paper_lab):
    paper_lab.cell(config=config())
    line = cells(build_table(paper_lab.experiment))["+ PACL (Ours)"]
    assert (line[0], line[2], line[-1]) == ("–", "87.25", "reported")
    assert "reported: a method that is not built" in render.terminal(
        build_table(paper_lab.experiment), [], style=False
    )


def test_only_results_of_the_papers_scale_stand_beside_it(paper_lab):
    paper_lab.options["scale"] = "cpu"
    paper_lab.finish(paper_lab.cell(config=config()))
    table = build_table(paper_lab.experiment)
    assert not any("paper" in label for label in render.header(table))
    assert table.rows == ["Baseline"]
    assert any("scale=paper alone; these are of scale=cpu" in note for note in table.notes)


def test_another_data_set_has_no_values_beside_it(paper_lab):
    paper_lab.options["places"] = ({"dataset": "phantom", "ratio": "2pct"},)
    paper_lab.cell(config=config(dataset={"name": "phantom"}))
    assert build_table(paper_lab.experiment).entries[0].reported == {}


@pytest.mark.parametrize(
    "part",
    [
        {"model": {"_target_": "semimedref.model.tevid_recon.TeViD"}},
        {**MODEL, "_target_": "semimedref.method.tevid_recon.TeViD"},
    ],
)
def test_a_reconstruction_is_not_compared_with_the_method_it_rebuilds(paper_lab, part):
    paper_lab.finish(paper_lab.cell(config=config(part)))
    line = build_table(paper_lab.experiment).entries[0]
    assert line.reported["dice"].value == 84.63 and line.gaps == {}


def test_no_best_and_no_difference_cross_metric_families(paper_lab):
    paper_lab.options |= {"paper": "main", "rows": ("LAVT", "MMI-UNet", "TextMoE")}
    paper_lab.finish(paper_lab.cell(row="LAVT", config=config()))
    paper_lab.finish(paper_lab.cell(row="MMI-UNet", config=config()))
    table = build_table(paper_lab.experiment)
    lavt, mmi, textmoe = table.entries
    assert cells(table)["LAVT"][2] == "69.25°" and lavt.gaps == {} and mmi.gaps
    number = render.header(table).index("Dice, paper")
    best = [number in render.best_cells(table, entry) for entry in (lavt, mmi, textmoe)]
    assert best == [False, True, False]
    assert any("another metric family" in note for note in table.notes)


def test_ours_are_marked_best_among_ours_alone(paper_lab):
    paper_lab.finish(paper_lab.cell(config=config()), images(60))
    paper_lab.finish(paper_lab.cell(row="+ T-S EMA", config=config()), images(70))
    table = build_table(paper_lab.experiment)
    best = [2 in render.best_cells(table, entry) for entry in table.entries]
    assert best == [False, True, False]


def test_the_csv_holds_the_papers_values_as_fractions_too(paper_lab):
    paper_lab.finish(paper_lab.cell(config=config()), images(80))
    rows = csv.DictReader(io.StringIO(render.csv_text(build_table(paper_lab.experiment))))
    first = next(rows)
    assert float(first["paper"]) == 0.8463 and float(first["difference"]) == pytest.approx(-0.0463)
    assert (first["paper_family"], first["seed_noise"]) == ("dataset", "unknown")


def test_a_damaged_run_is_a_failed_cell_and_the_others_are_shown(lab):
    lab.finish(lab.cell(seed="s0"))
    (lab.finish(lab.cell(seed="s1")) / "result.json").write_text("{")
    table = build_table(lab.experiment)
    assert table.entries[0].scores["dice"].n == 1
    assert any(note.startswith("Warning") and "not valid JSON" in note for note in table.notes)


def test_a_run_without_counts_has_no_interval_and_a_warning(lab):
    (lab.finish(lab.cell()) / "per_image.csv").unlink()
    lab.finish(lab.cell(row="Other"))
    table = build_table(lab.experiment)
    assert [entry.scores["dice"].ci is None for entry in table.entries] == [True, False]
    assert any("per_image.csv does not exist" in note for note in table.notes)
    assert compare_rows(table) == []


def test_a_result_without_its_score_is_not_silently_left_out(lab):
    lab.finish(lab.cell(seed="s0"), dice=float("nan"))
    lab.finish(lab.cell(seed="s1"))
    assert any("has no number for dice" in note for note in build_table(lab.experiment).notes)


def test_a_misspelt_metric_is_one_error(lab):
    lab.metrics = ["dcie"]
    lab.finish(lab.cell())
    with pytest.raises(UserError, match=r"dcie.*expected of dice"):
        build_table(lab.experiment)


def test_a_distance_is_shown_in_pixels_and_the_smallest_is_best(lab):
    lab.metrics = ["dice", "hd95"]
    lab.finish(lab.cell(), hd95=12.5)
    lab.finish(lab.cell(row="Other"), hd95=8.0)
    table = build_table(lab.experiment)
    number = render.header(table).index("HD95, px")
    assert [line[number] for line in render.body(table)] == ["12.50", "8.00"]
    assert [number in render.best_cells(table, entry) for entry in table.entries] == [False, True]


def test_what_is_to_be_said_of_a_row_stands_below_the_table(paper_lab):
    paper_lab.options |= {"remarks": {"Baseline": "after a description", "Gone": "nothing"}}
    paper_lab.cell(config=config())
    table = build_table(paper_lab.experiment)
    assert table.remarks == ("Baseline: after a description.",)
    for text in (render.terminal(table, [], style=False), render.markdown(table, []),
                 latex.latex(table)):  # fmt: skip
        assert "Baseline: after a description." in text
