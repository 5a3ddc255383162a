"""``semimedref analyze`` on a tiny trained run: files, table, figures; and bad input."""

import csv
import json

import pytest
import torch
from PIL import Image

from semimedref.analysis.commands import ANALYSES
from semimedref.cli import main

pytestmark = pytest.mark.slow

FULL = ("augment=semi_medref", "align=pacl")
FIGURES = {
    "interventions": ["interventions", "interventions_example"],
    "swap": ["swap", "swap_examples"],
    "attention": ["attention"],
    "alignment": ["alignment"],
    "mixing": ["mixing"],
}


@pytest.fixture
def folder(train_tiny):
    return train_tiny(*FULL)


def lines_of(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("what", ANALYSES)
def test_every_analysis_writes_numbers_and_figures(folder, tmp_path, capsys, what):
    out = tmp_path / "out"
    assert main(["analyze", what, f"run={folder}", f"out={out}", "overlays=synthetic"]) == 0
    assert isinstance(json.loads((out / f"{what}.json").read_text()), dict)
    for ending in ("png", "svg", "pdf", "json", "csv"):
        found = sorted(p.stem for p in out.glob(f"*.{ending}") if "per_image" not in p.stem)
        assert found == FIGURES[what]
    for path in out.glob("*.json"):
        about = json.loads(path.read_text())
        assert about["caption"].endswith(".") and about["sources"] == [folder.name]
        assert len(about["table"]) > 1 and {len(line) for line in about["table"]} == {
            len(about["table"][0])
        }
    for path in out.glob("*.png"):
        with Image.open(path) as picture:
            assert min(picture.size) > 200
    text = lines_of(capsys)
    assert len(text) < 25 and text[-1].startswith("written: ")


def test_files_go_to_the_run_folder_and_name_the_split(folder):
    assert main(["analyze", "swap", f"run={folder}", "split=test"]) == 0
    found = {p.name for p in (folder / "analysis").iterdir()}
    assert {"swap-test.json", "swap-test.png", "swap-test_per_image.csv"} <= found
    assert "swap-test_examples.png" not in found  # the run says overlays=never


def test_per_image_values_give_the_printed_means(folder, tmp_path):
    main(["analyze", "interventions", f"run={folder}", f"out={tmp_path}"])
    rows = list(csv.DictReader((tmp_path / "interventions_per_image.csv").open()))
    numbers = json.loads((tmp_path / "interventions.json").read_text())
    mean = sum(float(r["inconsistency_remove"]) for r in rows) / len(rows)
    assert len(rows) == numbers["images"] == 24
    assert mean == pytest.approx(numbers["interventions"]["remove"]["inconsistency"], abs=1e-5)


def test_mixing_prints_the_strategies_in_the_papers_order(folder, tmp_path, capsys):
    main(["analyze", "mixing", f"run={folder}", f"out={tmp_path}"])
    rows = [line.split("  ")[0] for line in lines_of(capsys) if "PatchMix" in line]
    assert rows == ["Random PatchMix", "T-PatchMix-pos", "T-PatchMix-prob", "T-PatchMix-hybrid"]


def test_several_runs_are_compared_in_one_table(folder, train_tiny, tmp_path, capsys):
    other = train_tiny("augment=semi_medref", "align=clip")
    assert main(["analyze", "alignment", f"run={other},{folder}", f"out={tmp_path}"]) == 0
    text = "\n".join(lines_of(capsys))
    assert text.index("CLIP") < text.index("PACL")
    both = json.loads((tmp_path / "alignment.json").read_text())
    assert both["sources"] == [other.name, folder.name]
    for run in (other, folder):
        own = json.loads((run / "analysis" / "alignment.json").read_text())
        assert both[run.name].items() <= own.items()


def refused(capsys, *args):
    assert main(["analyze", *map(str, args)]) == 2
    return capsys.readouterr().err


def test_bad_input_is_one_line(folder, train_tiny, capsys):
    assert "interventions, swap" in refused(capsys, "swp", f"run={folder}")
    assert "run= is missing" in refused(capsys, "swap")
    assert "train" in refused(capsys, "swap", f"run={folder}", "split=dev")
    assert "one run" in refused(capsys, "swap", f"run={folder},{folder}")
    assert "align=pacl" in refused(capsys, "alignment", f"run={train_tiny()}")


def test_a_checkpoint_without_projections_predicts_but_cannot_be_aligned(folder, tmp_path, capsys):
    old = tmp_path / folder.name
    old.mkdir()
    (old / "run.json").write_text((folder / "run.json").read_text())
    state = torch.load(folder / "best.pt", weights_only=True)
    assert set(state["weights"]) == {"student", "teacher", "align"}
    del state["weights"]["align"]
    torch.save(state, old / "best.pt")
    assert main(["evaluate", f"run={old}"]) == 0
    assert "no projections" in refused(capsys, "alignment", f"run={old}")


def test_the_alignment_heads_are_the_trained_ones(open_tiny, folder):
    heads = torch.load(folder / "best.pt", weights_only=True)["weights"]["align"]
    loaded = open_tiny(*FULL).parts.method.align.state_dict()
    assert all(torch.equal(loaded[key], value) for key, value in heads.items())


def test_the_report_shows_the_figures_that_exist(train_tiny):
    from semimedref.results.evidence import analyses

    folder = train_tiny(*FULL)
    main(["analyze", "attention", f"run={folder}"])

    class Run:
        seed = "s42"

    class Entry:
        row, done = "Ours", [Run]

    class Table:
        entries = (Entry,)

    Run.folder = folder
    assert "attention: Ours, s42" in analyses(Table)
    Run.folder = folder / "nowhere"
    assert analyses(Table) == ""
