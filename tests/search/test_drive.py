"""Searches by formula: resumed studies, failures, repeated points, early stops."""

import json

import pytest

from semimedref.errors import UserError
from semimedref.owner import owned
from semimedref.search import point
from semimedref.search.record import Study
from tests.search.synthetic import DICE, RULE, SAMPLERS, STEPS, Lab, make_search, value_of

pytestmark = pytest.mark.usefixtures("formula", "no_database")
CASES = [*((name, (DICE,)) for name in SAMPLERS), ("tpe", (DICE, STEPS)), ("nsgaii", (DICE, STEPS))]


def interrupted(search, *, after, **options):
    lab = Lab(search, kill_after=after, **options)
    with pytest.raises(KeyboardInterrupt):
        lab.drive()
    return lab


@pytest.mark.parametrize(("sampler", "objectives"), CASES)
def test_an_interrupted_study_proposes_the_same_points(tmp_path, sampler, objectives):
    whole = Lab(make_search(tmp_path / "whole", sampler, objectives)).drive()
    search = make_search(tmp_path / "cut", sampler, objectives)
    first = interrupted(search, after=5, order=-1)  # jobs of a batch end in another order
    second = interrupted(search, after=3)
    third = Lab(search)
    study = third.drive()
    assert study.trials == whole.trials
    assert len(study.trials) == (9 if sampler == "grid" else 12)
    trained = [*first.trained, *second.trained, *third.trained]
    assert sorted(trained) == sorted(set(trained))  # nothing was trained twice
    again = Lab(search)
    assert again.drive().trials == whole.trials and again.trained == []


def test_a_grid_visits_every_point_once(tmp_path):
    study = Lab(make_search(tmp_path, "grid")).drive()
    points = {tuple(t.params.values()) for t in study.trials}
    assert points == {(a, c) for a in (0.0, 0.5, 1.0) for c in "xyz"}


def test_the_sampler_learns_from_lower_batches(tmp_path):
    learned = Lab(make_search(tmp_path / "tpe", trials=30)).drive()
    drawn = Lab(make_search(tmp_path / "random", "random", trials=30)).drive()

    def mean(study):
        return sum(value_of(t.params) for t in study.trials[15:]) / 15

    assert mean(learned) > mean(drawn)


def test_more_trials_continue_a_study_as_if_they_had_been_asked_for_first(tmp_path):
    Lab(make_search(tmp_path / "grown", trials=7)).drive()
    grown = Lab(make_search(tmp_path / "grown", trials=12)).drive()
    assert grown.trials == Lab(make_search(tmp_path / "whole", trials=12)).drive().trials


def test_a_lost_record_is_built_again_from_the_runs(tmp_path):
    search = make_search(tmp_path)
    study = Lab(search).drive()
    (search.folder / "study.json").unlink()
    lab = Lab(search)
    assert lab.drive().trials == study.trials and lab.trained == []
    assert sorted(lab.free) == sorted(t.run for t in study.trials)


def test_a_failed_trial_is_told_and_the_search_goes_on(tmp_path):
    search = make_search(tmp_path)
    study = Lab(search, fail=[4, 6]).drive()
    assert [t.number for t in study.trials if t.state == "failed"] == [4, 6]
    assert study.trials[4].reason == "boom 4" and study.trials[4].values is None
    assert study.count("done") == 10
    points = [t.params for t in study.trials]
    healed = Lab(search)
    assert healed.drive(retry=True).count("done") == 12
    assert len(healed.trained) == 2
    assert [t.params for t in Study.load(search).trials] == points


def test_a_job_that_vanishes_is_a_failed_trial(tmp_path):
    class Cancelled(Lab):
        def train(self, order):
            if len(self.trained) != 2:
                super().train(order)

    study = Cancelled(make_search(tmp_path)).drive()
    assert [t.number for t in study.trials if t.state == "failed"] == [1]
    assert "cancelled, killed or lost" in study.trials[1].reason


def test_a_run_that_another_process_trains_is_waited_for(tmp_path, capsys):
    import fcntl

    class Elsewhere(Lab):
        def train(self, order):
            if len(self.trained) != 2:
                super().train(order)
                return
            lock = (self.search.run_root / order.name / ".lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.lock = lock

    search = make_search(tmp_path)
    lab = Elsewhere(search)
    study = lab.drive()
    assert [t.state for t in study.trials] == ["done", "open", "done"]
    assert "the same command goes on" in capsys.readouterr().out
    lab.lock.close()
    assert Lab(search).drive().count("done") == 12


def test_on_error_stop_ends_after_the_batch(tmp_path):
    study = Lab(make_search(tmp_path), fail=[1]).drive(stop=True)
    assert len(study.trials) == 3


def test_a_point_that_cannot_be_composed_has_failed(tmp_path):
    space = {"a": "interval(0.0,1.0)", "c": "choice(x,y,z,broken)"}
    study = Lab(make_search(tmp_path, space=space)).drive()
    broken = [t for t in study.trials if t.params["c"] == "broken"]
    assert broken and all(t.state == "failed" and t.run == "" for t in broken)
    assert study.count("done") == 12 - len(broken)


def test_a_repeated_point_is_trained_once(tmp_path):
    space = {"a": "choice(0.0,0.5)", "c": "choice(x,y)"}
    lab = Lab(make_search(tmp_path, "random", space=space))
    study = lab.drive()
    assert study.count("done") == 12 and len(lab.trained) == len({t.run for t in study.trials}) <= 4
    note = json.loads(
        (tmp_path / study.trials[0].run / "studies" / f"{study.name}.json").read_text()
    )
    assert note["trials"] == [t.number for t in study.trials if t.run == study.trials[0].run]


def test_a_run_of_two_studies_keeps_both(tmp_path):
    from semimedref.tracking.studies import study_tags

    space = {"a": "choice(0.0,0.5)", "c": "choice(x)"}
    for name in ("one", "two"):
        study = Lab(make_search(tmp_path, "random", space=space, study=name, trials=3)).drive()
    tags = study_tags(tmp_path / study.trials[0].run)
    assert tags["study"] == "one, two"
    assert tags["trial"].split(", ")[1].split()[0] == "0"


def test_bad_trials_stop_and_are_told_the_same_way_however_far_they_were_trained(tmp_path):
    whole = Lab(make_search(tmp_path / "a", stop=RULE)).drive()
    stopped = [t for t in whole.trials if t.state == "stopped"]
    assert stopped and min(t.number for t in stopped) >= 3  # the first batch has no median
    assert all(len(t.curve) == 3 and t.values == [max(t.curve)] for t in stopped)
    # The same runs, finished before by somebody else: told the same way, so the same points.
    other = make_search(tmp_path / "b", stop=None, study="elsewhere")
    search = make_search(tmp_path / "b", stop=RULE)
    for trial in whole.trials:
        lab, order = Lab(other), point.Order(trial.run, point.overrides_of(search, 0, trial.params))
        notes = tmp_path / "b" / trial.run / "studies"
        notes.mkdir(parents=True, exist_ok=True)
        (notes / "elsewhere.json").write_text(json.dumps({"limits": {}}))
        lab.train(order)
    lab = Lab(search)
    assert lab.drive().trials == whole.trials and lab.trained == []


def test_two_processes_cannot_run_one_study(tmp_path):
    folder = make_search(tmp_path).folder
    folder.mkdir(parents=True)
    with owned(folder), pytest.raises(UserError, match="already by process"), owned(folder):
        pass
    with owned(folder):
        pass
