"""The best trial, and the Pareto front."""

from semimedref.search.front import best_trials
from semimedref.search.record import Trial
from tests.search.synthetic import DICE, STEPS


def trials(*values, state="done"):
    return [Trial(i, {}, {}, "", state, list(v)) for i, v in enumerate(values)]


def test_the_best_is_the_first_of_the_highest():
    assert [t.number for t in best_trials(trials([0.1], [0.4], [0.4]), [DICE])] == [1]


def test_a_stopped_trial_is_never_the_best():
    assert best_trials(trials([0.9], state="stopped"), [DICE]) == []


def test_the_front_holds_what_nothing_beats_in_both():
    found = trials((0.8, 10), (0.9, 20), (0.7, 15), (0.9, 30), (0.6, 5), (0.8, 10))
    assert [t.number for t in best_trials(found, [DICE, STEPS])] == [0, 1, 4]
