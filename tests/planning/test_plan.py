import pytest

from semimedref.planning.plan import Line, plan_experiment, plan_experiments
from semimedref.planning.run_plan import RunPlan
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

# 100 steps of 36 s; 4 x 24 validation images of 3.6 s; 30 test images of 7.2 s.
HOURS = (3600 + 345.6 + 216) / 3600


def test_hours_steps_memory_and_disk_are_sums_over_what_is_missing(words):
    plan = plan_experiment(expand(words))
    total = plan.total
    assert (total.cells, len(total.runs), total.states) == (4, 4, {"missing": 4})
    assert sum(run.steps for run in total.open) == 400
    assert total.gpu_hours == pytest.approx(4 * HOURS)
    assert total.memory == 3 * 2**30
    papers = 30 * 110 + 4 * 450 + 40_000
    assert total.end_bytes == 4 * (2e9 + papers)
    assert total.peak_bytes(2) == total.end_bytes + 2 * 2 * 5e9  # last.pt, old and new, of two
    assert plan.cache_bytes == 254 * 3 * 96**2  # one cache for all
    assert [line.label for line in plan.lines] == ["Baseline", "+ T-S EMA"]
    assert [line.gpu_hours for line in plan.lines] == pytest.approx([2 * HOURS] * 2)


def test_a_finished_run_costs_nothing_and_an_interrupted_one_its_last_epoch(words, finish):
    experiment = expand(words)
    finish(experiment, experiment.cells[0], done=True)
    finish(experiment, experiment.cells[1], done=False)
    plan = plan_experiment(experiment)
    assert plan.total.states == {"done": 1, "paused": 1, "missing": 2}
    rest = (25 * 36 + 24 * 3.6 + 216) / 3600
    assert plan.lines[0].gpu_hours == pytest.approx(rest)
    assert plan.total.gpu_hours == pytest.approx(2 * HOURS + rest)
    assert plan.lines[0].states == {"done": 1, "paused": 1}


def test_runs_that_experiments_share_count_once(words):
    plan = plan_experiments([expand(words), expand([*words, "ratio=2pct"])])
    assert [len(line.runs) for line in plan.lines] == [4, 2]
    assert (plan.total.cells, len(plan.total.runs)) == (6, 4)
    assert plan.total.gpu_hours == pytest.approx(4 * HOURS)


def test_only_the_chosen_cells_are_planned(words):
    experiment = expand(words)
    assert plan_experiment(experiment, experiment.cells[:1]).total.cells == 1


def test_the_longest_runs_start_first():
    runs = [RunPlan(str(h), "missing", seconds=3600 * h) for h in (2, 3, 4, 5, 6)]
    line = Line("", 5, tuple(runs))
    assert line.wall_hours(1) == 20
    assert line.wall_hours(2) == 11  # 6, 3, 2 beside 5, 4
    assert line.wall_hours(10) == 6


def test_images_that_nobody_knows_are_said_and_not_guessed(words):
    plan = plan_experiment(expand([*words, "dataset=own", "dataset.annotation=nowhere.csv"]))
    assert plan.total.gpu_hours == 0 and len(plan.unknown) == 1
    assert plan.unknown[0].startswith("own: the number of images is unknown")


def test_an_early_stop_is_known_before(words):
    runs = plan_experiment(
        expand([*words, "trainer.patience=2", "trainer.min_epochs=1"])
    ).total.runs
    assert {run.earliest for run in runs} == {(3, 4)}  # the first epoch is the best, then two more


def test_every_stage_may_stop_early(words):
    staged = ["only=Baseline", "+method.stages={labeled:0.25,all:0.75}"]
    runs = plan_experiment(
        expand([*words, *staged, "trainer.patience=1", "trainer.min_epochs=1"])
    ).total.runs
    assert {run.earliest for run in runs} == {(3, 4)}  # 1 of 1 epoch, then 2 of 3


def test_trials_that_a_search_has_not_drawn_cost_as_its_starting_point(words):
    search = expand(["experiment=search_phantom", *(w for w in words[1:] if "=" in w)])
    plan = plan_experiment(search)
    known, come = plan.lines
    assert (known.cells, come.cells) == (0, search.search.search.trials)
    assert plan.total.gpu_hours == pytest.approx(come.cells * HOURS)


def test_a_search_trains_no_more_at_once_than_it_proposes(words):
    from semimedref.planning.text import render

    one, eight = (
        plan_experiment(expand([*words, "experiment=search_phantom", f"search.batch={n}"]))
        for n in (1, 8)
    )
    assert (one.at_once, eight.at_once) == (1, eight.gpu.at_once)
    assert one.total.wall_hours(one.at_once) == pytest.approx(one.total.gpu_hours)
    assert "search.batch=… trains more at once" in render(one)
    assert "gpu.at_once=…" in render(eight)
