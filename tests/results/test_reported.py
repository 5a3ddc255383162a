import pytest

from semimedref.errors import UserError
from semimedref.results import reported
from semimedref.results.audit import audit_command, csv_text, pairs_of, report
from semimedref.results.reported import PaperTable, Reported, family_of, load_table

QATA_2 = {"dataset": "qata_cov19", "ratio": "2pct"}


def test_values_are_found_by_row_and_place_with_their_deviation():
    found = load_table("main").look("Ours (MMI-UNet)", QATA_2)
    assert found == {
        "dice": Reported(87.25, 0.03, seeds=3), "miou": Reported(77.38, 0.05, seeds=3)
    }  # fmt: skip
    assert load_table("main").look("MMI-UNet", QATA_2)["dice"] == Reported(84.63)


def test_one_published_number_has_one_deviation_in_every_table():
    ours = Reported(87.25, 0.03, seeds=3, own=False)
    assert load_table("component_ablation").look("+ PACL (Ours)", QATA_2)["dice"] == ours
    assert load_table("augmentation_ablation").look("Ours-All", QATA_2)["dice"] == ours
    assert load_table("component_ablation").look("Baseline", QATA_2)["dice"].std is None


def test_another_data_set_or_ratio_has_no_value():
    table = load_table("main")
    assert table.look("MMI-UNet", {"dataset": "phantom", "ratio": "2pct"}) == {}
    assert table.look("MMI-UNet", {"dataset": "qata_cov19", "ratio": "3pct"}) == {}
    assert table.look("Nobody", QATA_2) == {}


def test_a_condition_that_the_paper_leaves_open_fits_anywhere():
    place = {"dataset": "qata_cov19", "ratio": "15pct"}
    assert load_table("position_predictors").look("GAP-MLP", place)["map"] == Reported(90.79)


def test_dataset_level_scores_obey_miou_equals_d_over_two_minus_d():
    # D = 0.8: IoU = 0.8 / 1.2 = 66.67
    assert family_of({"dice": 80.0, "miou": 66.67}) == "dataset"
    assert family_of({"dice": 80.0, "miou": 66.70}) == "near"
    assert family_of({"dice": 80.0, "miou": 67.60}) == "near"
    assert family_of({"dice": 80.0, "miou": 67.70}) == "other"
    assert family_of({"dice": 80.0, "miou": 65.60}) == "other"
    assert family_of({"dice": 80.0}) == "dataset"


@pytest.mark.parametrize("dice", [40.0, 66.67, 88.31])
def test_rounding_alone_never_makes_a_pair_look_strange(dice):
    for shift in (-0.0049, 0.0, 0.0049):
        true = (dice + shift) / 100
        assert family_of({"dice": dice, "miou": round(100 * true / (2 - true), 2)}) == "dataset"


def test_the_mixed_families_of_the_main_table_are_named():
    pairs = pairs_of(load_table("main"))
    assert len(pairs) == 15 * 8
    rows = {p.row for p in pairs if p.family == "other"}
    assert rows == {"LAVT", "SemiRES", "LViT", "TextMatch", "DuSSS"}
    assert max(abs(p.apart) for p in pairs) == pytest.approx(5.20, abs=0.01)  # DuSSS, 57.22 / 45.28
    text = report(pairs, everything=False)
    assert "another metric family" in text and "120 published pairs" in text
    assert "MMI-UNet  " not in text.replace("Ours (MMI-UNet)", "")


def test_the_audit_prints_and_writes(capsys, tmp_path):
    out = tmp_path / "audit.csv"
    assert audit_command(["table=component_ablation", "all=true", f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "10 published pairs" in printed and "+ T-PatchMix" in printed
    assert out.read_text() == csv_text(pairs_of(load_table("component_ablation")))
    assert out.read_text().splitlines()[1].startswith("component_ablation,Baseline,qata_cov19 1pct")


@pytest.mark.parametrize("args", [["table=nothing"], ["all=maybe"], ["tabel=main"]])
def test_bad_options_of_the_audit_are_one_error(args):
    with pytest.raises(UserError, match="expected"):
        audit_command(args)


def test_every_value_is_a_number_and_no_cell_is_listed_twice():
    for name in reported.known_tables():
        table = load_table(name)
        keys = [tuple(v for k, v in r.items() if k != "value") for r in table.records]
        assert len(keys) == len(set(keys)), name
        assert all(float(r["value"]) > 0 for r in table.records), name


def test_a_table_knows_its_rows_and_metrics():
    records = (
        {"row": "a", "metric": "dice", "value": "1"},
        {"row": "a", "metric": "dice_std", "value": "1"},
    )
    assert PaperTable("x", records).rows == ["a"]
    assert PaperTable("x", records).metrics == ["dice"]
