import pytest

from semimedref.errors import UserError
from semimedref.method.schedule import Progress, Schedule


def at(step, unit="epochs", update="step"):
    schedule = Schedule(unit=unit, burn_in=5 if unit == "epochs" else 0.2,
                        ramp=15 if unit == "epochs" else 0.3, ramp_update=update,
                        momentum_ramp=20, momentum_update=update)  # fmt: skip
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
        Schedule(unit="hours", burn_in=1, ramp=1, ramp_update="step", momentum_ramp=1,
                 momentum_update="step")  # fmt: skip


@pytest.mark.parametrize(
    ("step", "share"),
    [(59, 0), (60, 1 / 15), (69, 1 / 15), (70, 2 / 15), (199, 14 / 15), (200, 1), (990, 1)],
)
def test_the_releases_ramp_rises_per_epoch_and_is_zero_in_epoch_5(step, share):
    schedule, progress = at(step, update="epoch")
    assert schedule.unlabeled_share(progress) == pytest.approx(share)
    assert 0.3 * schedule.unlabeled_share(progress) == pytest.approx(0.3 * share)


def test_the_releases_unlabeled_branch_is_skipped_in_epoch_5_and_ours_is_not():
    ours, release = (Schedule.skips_unlabeled(*at(50, update=u)) for u in ("step", "epoch"))
    assert (ours, release) == (False, True)
    assert not Schedule.in_burn_in(*at(50, update="epoch"))
    assert Schedule.skips_unlabeled(*at(59, update="epoch"))
    assert not Schedule.skips_unlabeled(*at(60, update="epoch"))
    assert Schedule.skips_unlabeled(*at(49)) and not Schedule.skips_unlabeled(*at(51))


@pytest.mark.parametrize(
    ("step", "share"), [(59, 0), (60, 0.05), (69, 0.05), (250, 1), (249, 0.95)]
)
def test_the_releases_momentum_rises_per_epoch(step, share):
    schedule, progress = at(step, update="epoch")
    assert schedule.momentum_share(progress) == pytest.approx(share)


def test_an_unknown_update_is_refused():
    with pytest.raises(UserError, match="step or epoch"):
        at(0, update="day")
