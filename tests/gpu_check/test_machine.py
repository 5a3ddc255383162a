from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from semimedref.gpu_check.checks import machine


@pytest.mark.parametrize(
    ("kernel", "capability", "runs"),
    [
        ("sm_86", (8, 6), True),
        ("sm_80", (8, 6), True),  # same major version, older minor one
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("compute_80", (9, 0), True),  # compiled by the driver
        ("compute_90", (8, 6), False),
        ("sm_90a", (9, 0), True),
        ("sm_120", (12, 0), True),
        ("gfx90a", (9, 0), False),
    ],
)
def test_which_kernels_run_on_which_gpu(kernel, capability, runs):
    assert machine._runs(kernel, *capability) is runs


@pytest.fixture
def cuda():
    names = ["get_device_properties", "mem_get_info", "device_count", "is_bf16_supported",
             "get_arch_list", "current_device"]  # fmt: skip
    patches = {name: mock.create_autospec(getattr(torch.cuda, name)) for name in names}
    with mock.patch.multiple(torch.cuda, **patches):
        torch.cuda.get_device_properties.return_value = SimpleNamespace(
            name="NVIDIA GeForce RTX 3090", major=8, minor=6, multi_processor_count=82,
            total_memory=24 * 2**30,
        )  # fmt: skip
        torch.cuda.mem_get_info.return_value = (23 * 2**30, 24 * 2**30)
        torch.cuda.device_count.return_value = 4
        torch.cuda.current_device.return_value = 1
        torch.cuda.is_bf16_supported.return_value = True
        torch.cuda.get_arch_list.return_value = ["sm_75", "sm_80", "compute_90"]
        yield torch.cuda


def test_the_facts_of_a_gpu_fit_one_sentence(cuda):
    facts = machine.gpu_facts()
    assert (facts["gpus"], facts["capability"], facts["bf16"]) == (4, "8.6", True)
    cuda.get_device_properties.assert_called_once_with(1)  # the one that is measured
    sentence = machine._sentence(facts)
    assert sentence.startswith("NVIDIA GeForce RTX 3090, 24.0 GB (23.0 free), capability 8.6")
    assert machine._kernels(facts).state == "ok"


def test_a_torch_without_kernels_for_the_gpu_fails_with_advice(cuda):
    cuda.get_arch_list.return_value = ["sm_90"]
    finding = machine._kernels(machine.gpu_facts())
    assert finding.state == "failed" and "sm_90" in finding.found and "8.6" in finding.expected


def test_a_machine_without_nvidias_tool_has_no_driver_version(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.driver() is None


def test_a_cpu_is_described_too(setup):
    described, product = machine.check(setup)
    assert torch.__version__ in described.found
    assert product.state == "ok" and "262144" in product.found
