"""What an experiment file may say about a search."""

import copy

import pytest
from omegaconf import OmegaConf

from semimedref import config
from semimedref.errors import UserError
from semimedref.search.propose import distributions
from semimedref.search.settings import read_search
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

SEARCHES = ("search_phantom", "search_pacl", "search_augment", "search_cost")
NAME = "experiment=search_phantom"


def read(*words):
    ranges = [w for w in words if "interval" in w or "choice" in w]
    return read_search(config.compose([w for w in words if w not in ranges]), list(words))


@pytest.mark.parametrize("name", SEARCHES)
def test_every_search_reads_and_each_of_its_keys_changes_the_run(name):
    search = read(f"experiment={name}")
    assert search.name == name and expand([f"experiment={name}"]).search.search == search
    for key, space in distributions(search.space).items():
        ends = space.choices if hasattr(space, "choices") else (space.low, space.high)
        signatures = {
            config.signature(config.resolved(config.compose([f"experiment={name}", f"{key}={v}"])))
            for v in (ends[0], ends[-1])
        }
        assert len(signatures) == 2, key


def test_a_study_is_named_by_what_decides_its_points():
    base = read(NAME).study
    assert read(NAME, "search.trials=40", "run_root=elsewhere", "hardware.threads=1").study == base
    others = (
        "search.seed=1", "search.batch=4", "search.stop=null", "ratio=2pct",
        "align.temperature=0.07", "align.temperature=interval(0.1,0.2)",
        "hydra/sweeper/sampler=random",
    )  # fmt: skip
    names = {read(NAME, other).study for other in others}
    assert len(names) == len(others) and base not in names


def test_the_order_of_ranges_on_the_command_line_decides_nothing():
    words = ["align.temperature=interval(0.1,0.2)", "trainer.lr=interval(0.001,0.01)"]
    one, other = read(NAME, *words), read(NAME, *reversed(words))
    assert list(one.space) == list(other.space)
    assert one.study == other.study


def test_the_command_line_pins_and_adds_keys():
    search = read(NAME, "align.temperature=0.07", "trainer.weight_decay=interval(0.0,0.1)")
    assert "align.temperature" not in search.space
    assert search.space["trainer.weight_decay"] == "interval(0.0,0.1)"
    assert search.fixed == (NAME, "align.temperature=0.07")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("search.objectives", {"test/dice": "maximize"}, "never sees the test set"),
        ("search.objectives", {"val/test_dice": "maximize"}, "never sees the test set"),
        ("search.objectives", {"seconds": "minimize"}, "expected val/dice"),
        ("search.objectives", {"val/dice": "minimize"}, "expected maximize"),
        ("search.objectives", {"val/dice": "maximize", "cost/steps": "minimize"}, "stop compares"),
        ("search.objectives", {}, "is empty"),
        ("search.trials", 0, "expected a whole number from 1"),
        ("search.batch", 1.5, "expected a whole number from 1"),
        ("search.jobs", 2, "search.jobs of experiment=search_phantom is unknown"),
        ("hydra.sweeper.sampler.seed", 1, "give search.seed"),
        ("hydra.sweeper.sampler._target_", "optuna.samplers.CmaEsSampler", "expected tpe, random"),
        ("hydra.sweeper.params", {}, "has no parameter"),
    ],
)
def test_a_wrong_setting_is_refused(phantom, place, value, message):
    cfg = copy.deepcopy(phantom)
    OmegaConf.set_readonly(cfg, False)
    OmegaConf.set_readonly(cfg.hydra, False)
    OmegaConf.set_struct(cfg, False)
    OmegaConf.update(cfg, place, value, merge=False, force_add=True)
    with pytest.raises(UserError, match=message):
        read_search(cfg, [NAME])


@pytest.fixture(scope="module")
def phantom():
    return config.compose([NAME])


def test_a_range_that_is_none_is_refused():
    with pytest.raises(UserError, match="is no range"):
        distributions({"trainer.lr": "0.1"})
    with pytest.raises(UserError, match="cannot be read"):
        distributions({"trainer.lr": "interval(1,"})
