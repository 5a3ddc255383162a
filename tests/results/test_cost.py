import csv
import json

import pytest

from semimedref.results import cost, render
from semimedref.results.report import render_page
from semimedref.results.status import render_status
from semimedref.results.table import build_table
from semimedref.sweep import expand

pytestmark = pytest.mark.slow


@pytest.fixture
def experiment(tmp_path):
    return lambda *extra: expand(["experiment=position_predictors", f"run_root={tmp_path}", *extra])


@pytest.fixture
def table(experiment):
    return build_table(experiment())


def test_the_table_counts_the_papers_numbers_without_any_run(table):
    rows = {e.row: (e.cost["params"], f"{e.cost['gflops']:.2f}") for e in table.entries}
    assert rows == {
        "GAP-MLP": (28_419_944, "8.93"),
        "Six-region pooling": (29_896_424, "8.94"),
        "Six visual queries": (42_313_448, "9.31"),
    }


def test_the_terminal_shows_scores_costs_overheads_and_the_convention(table):
    lines = render.terminal(table, [], style=False).splitlines()
    cells = [line.split() for line in lines]
    head = ["mAP", "mAP,", "paper", "AUROC", "AUROC,", "paper", "F1", "F1,", "paper"]
    head += ["Params", "Params,", "paper", "GFLOPs", "GFLOPs,", "paper"]
    assert cells[2] == ["ratio", "method", *head, "seeds"]
    scores = ["–", "90.79", "–", "84.73", "–", "83.00"]
    costs = ["28,419,944", "28.42", "M", "8.93", "8.93"]
    assert cells[4] == ["100", "%", "GAP-MLP", *scores, *costs, "0", "of", "3"]
    assert cells[7] == ["Prediction-head", "overhead", "+0.30", "M", "<", "0.001"]
    assert cells[8] == ["ISPG", "overhead", "+28.42", "M", "+8.93"]
    assert any("LayerNorm 5" in line and "224 px" in line for line in lines)
    assert not any("CI of Dice" in line for line in lines)


def test_markdown_and_csv_hold_the_same_numbers(table):
    text = render.markdown(table, [])
    assert (
        "| 42,313,448 | 42.31 M | 9.31 | 9.31 |" in text
        and "| ISPG overhead |" in text
        and "LayerNorm 5" in text
    )
    found = {(r["row"], r["metric"]): r["mean"] for r in csv.DictReader(
        render.csv_text(table).splitlines())}  # fmt: skip
    assert found["Six-region pooling", "params"] == "29896424"
    assert found["Prediction-head overhead", "params"] == "299142"
    assert float(found["ISPG overhead", "gflops"]) == pytest.approx(8.93356992)
    assert found["GAP-MLP", "map"] == ""


def test_costs_are_those_of_the_rows_own_network(experiment):
    small = build_table(experiment("scale=cpu"))
    assert "96 px" in small.notes[0]
    assert small.entries[0].cost["params"] < 1_000_000


def test_a_finished_predictor_is_shown_everywhere_without_masks(experiment):
    asked = experiment("scale=cpu", "seed=s42")
    for cell, value in zip(asked.cells, (0.5, 0.25, 0.75), strict=True):
        folder = asked.run_root / cell.name
        folder.mkdir()
        row = {"epoch": 1, "step": 5, "val/map": value}
        (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        result = {"status": "done", "signature": cell.signature, "config": cell.config,
                  "best": {"epoch": 1, "val/map": value}, "wall_seconds": 1.0,
                  "test": {"map": value, "auroc": 0.5, "f1": 0.5}}  # fmt: skip
        (folder / "result.json").write_text(json.dumps(result))
    table = build_table(asked)
    assert "75.00" in render.terminal(table, [], style=False)
    assert "✓ done 25.0" in render_status(asked)
    page = render_page(table, overrides=(), extra=())
    assert "Validation mAP" in page and "ISPG overhead" in page


def test_an_experiment_without_costs_counts_nothing(lab, monkeypatch):
    monkeypatch.setattr(cost, "count", lambda config: pytest.fail("counted"))
    lab.finish(lab.cell())
    table = build_table(lab.experiment)
    assert table.cost == () and table.notes == () and render.overhead(table) == []


def test_something_small_is_not_printed_as_nothing():
    assert cost.added("gflops", 0.000599) == "< 0.001"
    assert cost.added("params", 299_142) == "+0.30 M"


def test_a_cost_is_counted_once_until_the_network_changes(monkeypatch, tmp_path):
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path))
    counted = []
    monkeypatch.setattr(cost, "_counted", lambda config: counted.append(1) or {"gflops": 8.93})
    method = {"model": {"width": 64, "weights": "a.pt"}}
    plain = {"method": method, "scale": {"image_side": 96}}
    for _ in range(2):
        assert cost.count(plain) == {"gflops": 8.93}
    cost.count(plain | {"method": {"model": {"width": 64, "weights": "b.pt"}}})  # costs the same
    assert len(counted) == 1
    cost.count(plain | {"scale": {"image_side": 160}})
    cost.count(plain | {"method": {"model": {"width": 32, "weights": "a.pt"}}})
    assert len(counted) == 3
