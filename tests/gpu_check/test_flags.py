import pytest
import torch

from semimedref.gpu_check.checks import flags


def test_the_error_of_a_rounded_product_is_seen():
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    assert flags.product_error(torch.matmul, a, b) < 1e-6

    def rounded(x, y):  # bfloat16 keeps 8 bits, TF32 would keep 11
        low = x.dtype == torch.float32
        return (x.bfloat16() @ y.bfloat16()).float() if low else x @ y

    assert flags.product_error(rounded, a, b) > 1e-3


def test_tf32_although_its_flag_is_off_fails_and_names_the_variable(setup, monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    finding = flags._effect(setup, "matrix product", tf32=False, error=3e-4)
    assert finding.state == "failed" and "NVIDIA_TF32_OVERRIDE=1" in finding.advice
    assert flags._effect(setup, "matrix product", tf32=False, error=3e-7).state == "ok"


def test_tf32_with_its_flag_on_is_as_it_should_be(setup, monkeypatch):
    monkeypatch.setattr(setup.accelerator, "tf32", True)
    assert flags._effect(setup, "convolution", tf32=True, error=3e-4).state == "ok"


def test_a_flag_that_is_not_as_claimed_is_named():
    finding = flags._compared("x", {"cudnn_tf32": False}, {"cudnn_tf32": True}, {})
    assert finding.state == "failed" and finding.found == "cudnn_tf32 is False, not True"


@pytest.mark.slow
def test_flags_are_as_the_hardware_option_says_before_and_after_training(setup):
    torch.backends.cuda.matmul.allow_tf32 = False
    found = list(flags.check(setup))
    assert [f.state for f in found] == ["ok"] * 7
    assert found[0].values["now"]["matmul_tf32"] is False
    assert found[-3].values["now"]["matmul_tf32"] is True  # hardware.tf32=true
    assert found[0].values["now"]["cublas_workspace"] == ":4096:8"
