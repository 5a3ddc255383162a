import pytest

from semimedref.config import compose, resolved
from semimedref.errors import UserError
from semimedref.planning.gpu import Gpu, precision_of
from semimedref.planning.plan import gpu_of

SLOW = Gpu(
    name="a GPU",
    memory_gib=8,
    peak_tflops={"fp32": 20.0, "bf16": None},
    sustained={"fp32": 0.5, "bf16": None},
    launch_us=10,
    reserve_gib=1.0,
    at_once=2,
)


def test_time_is_work_over_the_sustained_speed():
    assert SLOW.rate("fp32") == 1e13
    assert SLOW.seconds(2e13, kernels=100, precision="fp32") == 2.0


def test_a_small_network_waits_for_its_kernels():
    assert SLOW.seconds(1e6, kernels=2000, precision="fp32") == pytest.approx(0.02)


def test_a_precision_without_a_speed_is_refused_with_the_key_to_set():
    with pytest.raises(UserError, match=r"gpu\.peak_tflops\.bf16=NUMBER"):
        SLOW.rate("bf16")


def test_the_papers_gpu_is_the_default():
    gpu = gpu_of(resolved(compose([])))
    assert (gpu.name, gpu.memory_gib, gpu.at_once) == ("RTX 3090", 24, 4)


def test_a_measured_speed_is_taken_as_it_is():
    gpu = gpu_of(resolved(compose(["gpu=own", "gpu.peak_tflops.fp32=11.2"])))
    assert gpu.rate("fp32") == pytest.approx(1.12e13)


def test_no_gpus_at_once_are_refused():
    with pytest.raises(UserError, match=r"gpu\.at_once=0: expected a whole number"):
        gpu_of(resolved(compose(["gpu.at_once=0"])))


@pytest.mark.parametrize(
    ("overrides", "precision"),
    [
        ([], "fp32"),
        (["hardware.tf32=true"], "tf32"),
        (["trainer.precision=bf16", "hardware.tf32=true"], "bf16"),
        (["hardware=fast"], "bf16"),
        (["hardware=fast", "gpu=v100"], "fp32"),  # it has neither bf16 nor TF32
    ],
)
def test_the_precision_is_that_of_the_products(overrides, precision):
    config = resolved(compose(overrides))
    assert precision_of(config, gpu_of(config)) == precision
