from functools import partial

import pytest
import torch

from semimedref.gpu_check.checks import compiled


@pytest.mark.slow
def test_a_compiled_step_has_the_losses_of_the_eager_one(setup, monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    losses, graphs = compiled.check(setup)
    assert losses.state == "ok" and losses.values["losses"] < 1e-5, losses.line()
    assert graphs.values["graphs"] >= 1, "nothing was compiled"
    assert graphs.state == "ok", (graphs.line(), graphs.values)
