import json

import pytest

from semimedref.gpu_check.checks import locked


@pytest.fixture
def golden():
    return json.loads(locked.GOLDEN.read_text())


@pytest.mark.slow
def test_the_locked_cell_has_the_stored_losses_on_a_cpu(setup):
    found = list(locked.check(setup))
    assert [f.state for f in found] == ["ok", "ok", "ok"], [f.line() for f in found]
    assert found[1].values["largest"] < 1e-4  # of another CPU, too


def test_the_stored_losses_belong_to_the_cell_that_is_configured(setup, golden):
    assert locked.signature_of(setup) == golden["signature"]


def test_the_stored_cell_shows_burn_in_and_the_whole_method(setup, golden):
    terms = [len(step) for step in golden["losses"]]
    assert len(terms) == setup.settings["locked"]["steps"]
    assert terms == [2] * 4 + [5] * 12  # loss and loss_sup; then unlabeled and both PACL terms


@pytest.mark.parametrize(
    ("factor", "step", "passes"),
    [(1 + 1e-6, 0, True), (1 + 1e-4, 0, False), (1 + 1e-4, 9, True), (1.01, 9, False)],
)
def test_the_first_step_must_be_nearer_than_later_ones(setup, golden, factor, step, passes):
    settings, losses = setup.settings["locked"], golden["losses"]
    off = [dict(row) for row in losses]
    off[step]["loss"] *= factor
    finding = locked._compared("no TF32", off, losses, settings["all"], settings)
    assert (finding.state == "ok") is passes
