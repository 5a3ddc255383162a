import math

from semimedref.gpu_check.curve import Deviation, deviation


def test_the_largest_difference_is_a_share_of_the_total_loss_at_its_step():
    reference = [{"loss": 2.0, "loss_sup": 2.0}, {"loss": 4.0, "loss_sup": 1.0}]
    curve = [{"loss": 2.0, "loss_sup": 2.1}, {"loss": 4.0, "loss_sup": 0.5}]
    assert deviation(curve, reference) == Deviation(0.125, 2, "loss_sup")  # 0.5 / 4 > 0.1 / 2


def test_equal_curves_do_not_deviate():
    curve = [{"loss": 1.0}, {"loss": 0.5}]
    assert deviation(curve, curve).share == 0


def test_a_loss_that_is_not_a_number_deviates_by_any_measure():
    assert deviation([{"loss": math.nan}], [{"loss": 1.0}]) == Deviation(math.inf, 1, "loss")


def test_a_missing_term_and_a_missing_step_deviate_by_any_measure():
    one = [{"loss": 1.0}]
    assert deviation([{"loss": 1.0, "loss_unsup": 0.1}], one) == Deviation(
        math.inf, 1, "loss_unsup"
    )
    assert deviation(one, [*one, *one]) == Deviation(math.inf, 2, "steps")
