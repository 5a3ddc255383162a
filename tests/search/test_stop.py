"""The rule that stops bad trials, with hand-worked medians."""

from semimedref.search.stop import StopRule, limits, stops_at

RULE = StopRule(warmup=1, trials=2)


def test_limits_are_medians_of_the_best_so_far_after_the_warm_up():
    curves = [[0.1, 0.3, 0.2], [0.2, 0.1, 0.5], [0.4, 0.4, 0.4]]
    # best so far: .1 .3 .3 | .2 .2 .5 | .4 .4 .4
    assert limits(RULE, curves) == {2: 0.3, 3: 0.4}


def test_a_trial_that_ended_early_keeps_its_best():
    assert limits(RULE, [[0.1, 0.6], [0.2, 0.2, 0.2]]) == {2: 0.4, 3: 0.4}


def test_too_few_trials_or_no_rule_give_no_limits():
    assert limits(RULE, [[0.5, 0.5]]) == {}
    assert limits(None, [[0.5, 0.5]] * 9) == {}


def test_a_trial_stops_at_the_first_epoch_under_its_limit():
    assert stops_at([0.1, 0.2, 0.9], {2: 0.3, 3: 0.4}) == 2
    assert stops_at([0.5, 0.0, 0.0], {2: 0.3, 3: 0.4}) is None  # its best counts
    assert stops_at([0.3, 0.3], {2: 0.3}) is None  # equal is not under
    assert stops_at([0.0], {2: 0.3}) is None
    assert stops_at([], {1: 0.3}) is None
