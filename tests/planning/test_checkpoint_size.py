import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from semimedref import checkpoint
from semimedref.planning.checkpoint_size import checkpoint_bytes, optimizer_state


def network():
    return nn.Sequential(*(nn.Linear(7, 7) for _ in range(40)), nn.BatchNorm1d(3))


def test_a_state_without_data_is_as_large_as_the_file_of_the_real_one(tmp_path):
    real = network()
    optimizer = torch.optim.AdamW([{"params": list(real.parameters()), "lr_scale": 1.0}])
    for parameter in real.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    whole = {"method": dict(real.state_dict()), "optimizer": optimizer.state_dict()}
    checkpoint.save(whole | {"random": checkpoint.random_state()}, tmp_path / "last.pt")
    with FakeTensorMode():
        fake = network()
        groups = [{"params": list(fake.parameters()), "lr_scale": 1.0}]
        state = {"method": fake.state_dict(), "optimizer": optimizer_state(groups)}
    found = checkpoint_bytes(state, resumable=True)
    assert found == pytest.approx((tmp_path / "last.pt").stat().st_size, rel=0.005)


def test_a_tensor_under_two_names_is_saved_once():
    with FakeTensorMode():
        one = torch.empty(1000)
        both, single = {"a": one, "b": one}, {"a": one}
    assert checkpoint_bytes(both) - checkpoint_bytes(single) < 1000


def test_nothing_that_learns_has_no_state():
    assert optimizer_state([{"params": []}]) == {}
