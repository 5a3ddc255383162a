import pytest

from semimedref.errors import UserError
from semimedref.method.schedule import Progress, Schedule


def at(step, unit="epochs"):
    schedule = Schedule(unit=unit, burn_in=5 if unit == "epochs" else 0.2,
                        ramp=15 if unit == "epochs" else 0.3, momentum_ramp=20)  # fmt: skip
    return schedule, Progress(step, steps_per_epoch=10, total_steps=1000)


@pytest.mark.parametrize(
    ("step", "share"), [(0, 0), (49, 0), (50, 0), (125, 0.5), (200, 1), (900, 1)]
)
def test_lambda_u_is_zero_in_burn_in_then_rises_linearly_per_step(step, share):
    schedule, progress = at(step)
    assert schedule.unlabeled_share(progress) == pytest.approx(share)


def test_burn_in_ends_exactly_after_its_epochs():
    assert Schedule.in_burn_in(*at(49))
    assert not Schedule.in_burn_in(*at(50))


def test_momentum_rises_over_twenty_epochs_after_burn_in():
    schedule, progress = at(150)
    assert schedule.momentum_share(progress) == pytest.approx(0.5)


def test_spans_can_be_shares_of_all_steps():
    schedule, progress = at(350, unit="share")
    assert schedule.unlabeled_share(progress) == pytest.approx(0.5)


def test_an_unknown_unit_is_refused():
    with pytest.raises(UserError, match="epochs"):
        Schedule(unit="hours", burn_in=1, ramp=1, momentum_ramp=1)
