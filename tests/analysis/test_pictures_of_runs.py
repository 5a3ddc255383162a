"""Figures that open finished runs: panels of their predictions, and what their teacher mixes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from semimedref.analysis.mixes import pasted
from semimedref.cli import main
from semimedref.errors import UserError
from semimedref.results import store
from semimedref.results.figure import mixing_examples as examples
from semimedref.results.figure.measured import gather
from semimedref.results.figure.qualitative import qualitative, read, rows_to_show
from semimedref.results.table import build_table
from semimedref.sweep import Cell, Experiment

pytestmark = pytest.mark.slow

FEW = {"bootstrap": 200, "randomization": 50, "seed": 0, "locked": "s42"}


@pytest.fixture
def make_table(train_tiny):
    """A table of tiny runs: row -> overrides."""

    def table(rows, *, overlays="synthetic", name="quickstart"):
        cells = []
        for row, overrides in rows.items():
            folder = train_tiny(*overrides)
            config = store.load_config(folder) | {"overlays": overlays}
            cells.append(Cell(row, {"ratio": "2pct", "seed": "s42"}, (), config,
                                  folder.name[-12:], folder.name))  # fmt: skip
        experiment = Experiment(
            name, "Title", ["ratio"], "seed", ["dice"], folder.parent, cells, statistics=FEW
        )
        return build_table(experiment)

    return table


TWO = {"Baseline": ("method=supervised",), "Ours": ("augment=semi_medref", "align=pacl")}


def test_panels_show_the_scores_of_the_runs_own_test(make_table):
    table = make_table(TWO)
    figure = qualitative(table)
    head, *lines = figure.table
    assert head[-2:] == ["Dice, Baseline", "Dice, Ours"]
    for entry, column in zip(table.entries, (-2, -1), strict=True):
        frame = store.load_per_image(entry.done[0].folder).set_index("id")
        for line in lines:
            assert line[column] == pytest.approx(100 * frame["dice"][line[0]], abs=1e-4)
    assert len(figure.sources) == 2 and "quantile" in figure.caption


def test_predictions_of_the_panels_give_these_scores(make_table):
    _, runs = rows_to_show(make_table(TWO))
    frame = store.load_per_image(runs["Ours"].folder)
    case = frame.iloc[frame["tp"].argmax()]
    (shown,) = read([runs["Ours"]], {case["id"]: "why"}, np.array([[case["dice"]]]), ())
    (mask,) = shown.predictions
    counts = [(mask & shown.truth).sum(), (mask & ~shown.truth).sum(), (shown.truth & ~mask).sum()]
    assert counts == [case["tp"], case["fp"], case["fn"]]


def test_pictures_are_never_drawn_unasked(make_table):
    with pytest.raises(UserError, match="overlays=always"):
        qualitative(make_table(TWO, overlays="never"))
    with pytest.raises(UserError, match="overlays=always"):
        examples.mixing_examples(make_table({"Ours": TWO["Ours"]}, overlays="never"))


@pytest.fixture
def taught(open_tiny, monkeypatch):
    """A subject whose teacher knows the truth, blurred."""
    subject = open_tiny()
    masks = subject.parts.dataset.split("train").masks

    def teach(image, batch):
        del image
        chosen = torch.from_numpy(np.stack([masks[i] for i in batch.index]))[:, None].float()
        return F.avg_pool2d(chosen, 3, 1, 1)

    monkeypatch.setattr(subject.parts.method, "teach", teach)
    return subject


def test_a_mix_brings_the_donors_pixels_its_pseudo_mask_and_its_words(taught):
    found = pasted(taught)
    assert len(found) > 20
    for mix in found[:20]:
        left, top, right, bottom = mix.box
        inside = np.zeros(mix.mixed.shape, bool)
        inside[top:bottom, left:right] = True
        assert (mix.mixed[inside] == mix.donor[inside]).all()
        assert (mix.mixed[~inside] == mix.recipient[~inside]).all()
        # before: cut at delta 0.55, after: at 0.5; outside of the patch only ninths in between
        assert not (mix.pseudo_before & ~mix.pseudo_after)[~inside].any()
        assert mix.score >= 0.55
    assert any(mix.before != mix.after for mix in found)


def test_mixes_are_chosen_at_quantiles_of_the_lesion_score():
    def mix(score, name):
        return SimpleNamespace(score=score, recipient_id=name, donor_id="d")

    found = [mix(0.60, "b"), mix(0.95, "e"), mix(0.60, "a"), mix(0.8, "d"), mix(0.7, "c")]
    assert [m.recipient_id for m in examples.choose(found)] == ["a", "c", "e"]
    assert [m.recipient_id for m in examples.choose(found[:1])] == ["b"]


def test_mixing_examples_list_sentences_and_patches(taught, tmp_path):
    found = pasted(taught)
    chosen = examples.choose(found)
    figure = examples.draw_mixes(chosen, of=len(found), name="Ours", source="run")
    figure.write(tmp_path, "x")
    head, *lines = json.loads((tmp_path / "x.json").read_text())["table"]
    assert [line[head.index("sentence after")] for line in lines] == [m.after for m in chosen]
    assert str(len(found)) in figure.caption


def test_a_table_without_a_teacher_has_no_mixing_examples(make_table):
    with pytest.raises(UserError, match="teacher_student"):
        examples.teacher_run(make_table({"Baseline": TWO["Baseline"]}))


def test_analyses_are_gathered_by_row_and_a_missing_one_names_its_command(make_table):
    table = make_table(TWO)
    with pytest.raises(UserError, match=r"analyze swap run=\S+-teacher_student\S+ run_root="):
        gather(table, "swap", key="cases", split="train", asked=lambda run: True)
    folder = table.entries[1].done[0].folder
    assert main(["analyze", "interventions", f"run={folder}"]) == 0
    (found,) = gather(table, "interventions", key="dice", split="valid", asked=lambda run: True)
    assert (found.name, found.source) == ("Ours", folder.name)
    own = json.loads((folder / "analysis" / "interventions.json").read_text())
    assert found.numbers == own
