"""Whatever sweeps: what a run returns is the validation score that chose its epoch."""

import json
import math

import optuna
import pytest

from hydra_plugins.semimedref_launchers.orders import job_returns
from semimedref import config
from semimedref.application import run_application
from semimedref.folder import objective
from semimedref.launch.cell import CellOrder
from semimedref.run import run

ATLAS = [
    "method=atlas", "model=text_atlas", "trainer=atlas", "augment=none", "overlays=never",
    "method.thresholds=[0.1,0.3]", "trainer.epochs=2", "trainer.min_epochs=2",
]  # fmt: skip
THRESHOLDS = "0.2,0.4"  # of the mask: what the cells differ in

OURS = f"""# @package _global_
defaults: [{{override /hydra/sweeper: search}}, {{override /hydra/sweeper/sampler: grid}}]
experiment_name: ours
search:
  {{title: Thresholds, trials: 2, batch: 1, seed: 0, objectives: {{val/dice: maximize}}, stop: null,
   final: {{}}}}
hydra:
  sweeper:
    params: {{trainer.threshold: "choice({THRESHOLDS})"}}
"""


@pytest.fixture
def sweep(smoke, tmp_path, monkeypatch):
    """Sweep in this process; returns what each cell returned, by its threshold."""
    monkeypatch.chdir(tmp_path)

    def go(*words):
        seen = {}

        def task(cfg):
            seen[cfg.trainer.threshold] = value = run(cfg)
            return value

        run_application(["-m", *smoke, *ATLAS, "hydra/launcher=basic", *words], task)
        return seen

    return go


def results(tmp_path):
    files = [json.loads(f.read_text()) for f in (tmp_path / "multirun").glob("*/result.json")]
    return {r["config"]["trainer"]["threshold"]: r for r in files}


def test_stock_optuna_the_basic_sweeper_and_ours_see_equal_validation_scores(sweep, tmp_path):
    basic = sweep(f"trainer.threshold={THRESHOLDS}")
    found = results(tmp_path)
    assert len(found) == 2
    assert basic == {key: r["best"]["val/dice"] for key, r in found.items()}
    assert all(basic[key] != r["test"]["dice"] for key, r in found.items())

    storage = f"sqlite:///{tmp_path / 'optuna.db'}"
    sweep(
        "hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.direction=maximize",
        "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=1", "hydra.sweeper.study_name=stock",
        f"hydra.sweeper.storage={storage}", f"trainer.threshold=choice({THRESHOLDS})",
    )  # fmt: skip
    trials = optuna.load_study(study_name="stock", storage=storage).trials
    assert {t.params["trainer.threshold"]: t.value for t in trials} == basic

    folder = tmp_path / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "ours.yaml").write_text(OURS)
    sweep("experiment=ours", "--config-dir", str(folder.parent))
    (study,) = (tmp_path / "multirun" / "searches").glob("*/study.json")
    ours = json.loads(study.read_text())["trials"]
    assert {t["params"]["trainer.threshold"]: t["values"][0] for t in ours} == basic


def test_launchers_in_other_processes_return_that_score_too(compose_smoke, tmp_path):
    cfg = compose_smoke(*ATLAS)
    value = run(cfg)
    name = config.run_name(config.resolved(cfg))
    (job,) = job_returns([CellOrder(name, str(tmp_path / "multirun"), ())], finished=True)
    assert job.return_value == value == run(cfg)


def test_a_run_whose_epoch_was_chosen_on_the_test_set_has_no_such_score():
    best = {"epoch": 3, "val/dice_macro": 0.5, "val/dice": 0.6}
    assert objective({"best": best, "test": {}}) == 0.5  # before `selected_on` was written
    assert objective({"best": best, "selected_on": "valid"}) == 0.5
    assert math.isnan(objective({"best": best, "selected_on": "test"}))
