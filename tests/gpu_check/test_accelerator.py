"""The GPU's side is called as torch declares it; no GPU is needed to see that."""

from unittest import mock

import pytest
import torch

from semimedref.gpu_check.accelerator import Gpu, Host


class Event:
    """A clock of its own: every recorded event is one second, then two, then three later."""

    recorded = 0

    def __init__(self, *, enable_timing):
        assert enable_timing
        self.at = None

    def record(self):
        self.at, Event.recorded = sum(range(Event.recorded + 1)), Event.recorded + 1

    def elapsed_time(self, later):
        return 1000.0 * (later.at - self.at)  # milliseconds


@pytest.fixture
def cuda():
    """torch.cuda with its own signatures."""
    names = ["synchronize", "set_sync_debug_mode", "max_memory_allocated", "max_memory_reserved",
             "get_device_properties", "get_device_capability", "empty_cache",
             "reset_peak_memory_stats", "is_bf16_supported"]  # fmt: skip
    patches = {name: mock.create_autospec(getattr(torch.cuda, name)) for name in names}
    with mock.patch.multiple(torch.cuda, Event=Event, **patches):
        torch.cuda.get_device_capability.return_value = (8, 6)
        yield torch.cuda


def test_a_gpu_is_timed_between_events_and_waited_for_once(cuda):
    Event.recorded = 0
    called = []
    assert Gpu("cuda").seconds(lambda: called.append(1), 3) == [1.0, 2.0, 3.0]
    assert len(called) == 3 and cuda.synchronize.call_count == 1


def test_waiting_is_an_error_only_inside(cuda):
    with pytest.raises(ZeroDivisionError), Gpu("cuda").no_sync():
        assert cuda.set_sync_debug_mode.mock_calls == [mock.call("error")]
        raise ZeroDivisionError
    assert cuda.set_sync_debug_mode.mock_calls == [mock.call("error"), mock.call("default")]


def test_the_memory_of_a_gpu_is_that_of_torchs_allocator(cuda):
    cuda.max_memory_allocated.return_value, cuda.max_memory_reserved.return_value = 10, 20
    cuda.get_device_properties.return_value.total_memory = 30
    gpu = Gpu("cuda")
    assert gpu.memory() == {"allocated": 10, "reserved": 20, "total": 30}
    gpu.forget()
    assert cuda.empty_cache.called and cuda.reset_peak_memory_stats.called


@pytest.mark.parametrize(("capability", "has"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_tf32_began_with_ampere(cuda, capability, has):
    cuda.get_device_capability.return_value = capability
    assert Gpu("cuda").tf32 is has


def test_a_cpu_answers_the_same_questions():
    host = Host("cpu")
    host.forget()
    with host.no_sync():
        times = host.seconds(lambda: None, 4)
    assert len(times) == 4 and min(times) >= 0
    assert host.memory()["allocated"] > 2**20
