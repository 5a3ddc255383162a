"""Runs that others start from: planned once, before their cells, and no cells themselves."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from semimedref import config
from semimedref.needs import needed
from semimedref.planning.plan import Line, plan_experiment, plan_experiments
from semimedref.planning.run_plan import RunPlan
from semimedref.planning.text import csv_text, render
from semimedref.results.status import render_status
from semimedref.sweep import expand
from tests.test_needs import METHOD, OPTION

pytestmark = pytest.mark.slow

EXPERIMENT = """\
# @package _global_
# One method that starts from a run with all labels, beside one that does not.
defaults:
  - override /hydra/sweeper: table

experiment_name: mine
table: {title: Mine, columns: [ratio], over: seed, metrics: [dice]}
hydra:
  sweeper:
    rows:
      Tuned: {method: tuned, augment: none}
      Plain: {method: supervised, augment: none}
    params: {ratio: "2pct,15pct", seed: "s0,s1,s42"}
"""
# 100 steps of 36 s, 4 x 24 validation images of 3.6 s, 30 test images of 7.2 s (conftest.py).
CELL = 3600 + 345.6 + 216
TRUNK = 1800 + 172.8 + 216  # two epochs instead of four


@pytest.fixture
def mine(words, tmp_path, monkeypatch):
    """The experiment: 12 cells, and one run with all labels for each of three seeds."""
    package, folder = tmp_path / "my_lab", tmp_path / "conf"
    for place in (package, folder / "method", folder / "experiment"):
        place.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "tuned.py").write_text(METHOD)
    (folder / "method" / "tuned.yaml").write_text(OPTION)
    (folder / "experiment" / "mine.yaml").write_text(EXPERIMENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [f"hydra.searchpath=[file://{folder}]", "trusted_packages=[my_lab]"]

    def expanded(*more):
        return expand(["experiment=mine", *words[1:], *found, *more])

    return expanded


def trunk_of(cell):
    """What the cell itself would train first."""
    ((_, other),) = needed(config.compose(list(cell.overrides)))
    plain = config.resolved(other)
    return Path(plain["run_root"]) / config.run_name(plain), plain


def finish(folder, plain):
    folder.mkdir(parents=True)
    result = {"status": "done", "config": plain, "test": {"dice": 0.5}}
    (folder / "result.json").write_text(json.dumps(result))


def test_a_needed_run_counts_once_and_is_no_cell(mine):
    plan = plan_experiment(mine())
    assert plan.total.cells == 12 and len(plan.own.runs) == 12
    assert [run.steps for run in plan.needed.runs] == [50] * 3
    assert plan.total.gpu_hours == pytest.approx((12 * CELL + 3 * TRUNK) / 3600)
    names = {trunk_of(cell)[0].name for cell in mine().cells if cell.row == "Tuned"}
    assert {run.name for run in plan.needed.runs} == names and len(names) == 3


def test_the_plan_says_so(mine):
    plan = plan_experiment(mine())
    first, second, *rest = render(plan).splitlines()
    assert first == "mine: 12 cells, 12 runs: 12 missing"
    assert second == "3 further runs that others start from"
    lines = [line.split() for line in rest]
    assert ["needed", "by", "others", "0", "3", "3", "150"] in [line[:7] for line in lines]
    assert ["total", "12", "15", "15", "1,350"] in [line[:5] for line in lines]
    found = {row["method"]: row for row in csv.DictReader(csv_text(plan).splitlines())}
    assert found["needed by others"]["runs"] == "3" and found["total"]["to_do"] == "15"


def test_one_that_is_done_is_not_planned_again(mine):
    experiment = mine()
    tuned = [cell for cell in experiment.cells if cell.row == "Tuned"]
    finish(*trunk_of(tuned[0]))
    text = render(plan_experiment(experiment))
    assert "2 further runs that others start from" in text
    for cell in tuned:
        finish(experiment.run_root / cell.name, cell.config)
    plan = plan_experiment(experiment)
    assert plan.needed.runs == () and plan.total.states == {"done": 6, "missing": 6}
    assert "further" not in render(plan)


def test_the_rest_of_an_interrupted_one_is_planned(mine):
    experiment = mine("seed=s0", "ratio=2pct")
    folder, _ = trunk_of(experiment.cells[0])
    folder.mkdir(parents=True)
    (folder / "last.pt").touch()
    (folder / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "step": 25}) + "\n")
    plan = plan_experiment(experiment)
    assert [(run.state, run.steps) for run in plan.needed.runs] == [("paused", 25)]
    assert "1 further run that others start from" in render(plan)


def test_a_needed_run_that_is_a_cell_counts_as_the_cell(mine):
    one = mine("seed=s0", "ratio=2pct", "only=Tuned")
    folder, plain = trunk_of(one.cells[0])
    signed = config.signature(plain)
    cell = replace(one.cells[1], config=plain, signature=signed, name=folder.name)
    both = replace(one, cells=[one.cells[0], cell])
    plan = plan_experiment(both)
    assert plan.needed.runs == () and len(plan.total.runs) == 2
    assert plan_experiments([both, one]).needed.runs == ()


def test_cells_wait_for_what_they_start_from():
    runs = [RunPlan("trunk", "missing", seconds=3600)]
    runs += [RunPlan(f"{i}", "missing", seconds=7200, after=("trunk",)) for i in range(2)]
    runs += [RunPlan("long", "missing", seconds=4 * 3600)]
    line = Line("", 3, tuple(runs))
    assert line.wall_hours(1) == 9
    assert line.wall_hours(2) == 5  # trunk and its two beside the long one
    assert line.wall_hours(3) == 4  # the long one alone; the third GPU waits for an hour
    assert Line("", 2, tuple(runs[:3])).wall_hours(9) == 3


def test_status_counts_cells_and_no_other_runs(mine):
    experiment = mine()
    finish(*trunk_of(experiment.cells[0]))
    assert render_status(experiment).startswith("mine: 12 cells, 12 missing\n")


def test_another_gpu_composes_nothing_again(mine, monkeypatch):
    experiment = mine()
    first = plan_experiment(experiment)
    gpu = experiment.cells[0].config["gpu"] | {"peak_tflops": {"fp32": 2}}
    cells = [replace(cell, config=cell.config | {"gpu": gpu}) for cell in experiment.cells]
    calls = []
    monkeypatch.setattr(config, "compose", lambda *a, **k: calls.append(a))
    again = plan_experiment(replace(experiment, cells=cells))
    assert calls == [] and len(again.needed.runs) == 3
    assert [r.name for r in again.needed.runs] == [r.name for r in first.needed.runs]
    assert again.total.gpu_hours < first.total.gpu_hours
