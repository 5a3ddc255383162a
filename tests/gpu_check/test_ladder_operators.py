"""No operator of the ladder is on torch's list of those without a deterministic CUDA kernel."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
from fake_cuda import compile_shim, missing_tool, run_check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]
SCRIPT = Path(__file__).with_name("ladder_operators.py")
# What torch.use_deterministic_algorithms says will throw on CUDA, by the names of the operators.
REFUSED = {
    "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward", "max_unpool2d", "max_unpool3d", "upsample_linear1d_backward",
    "upsample_bilinear2d_backward", "upsample_bicubic2d_backward", "upsample_trilinear3d_backward",
    "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
    "nll_loss_forward", "nll_loss2d_forward", "_ctc_loss_backward", "_embedding_bag", "put_",
    "histc", "bincount", "median", "grid_sampler_2d_backward", "cumsum_float", "scatter_reduce",
}  # fmt: skip


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("shim"))


def test_the_ladder_calls_no_operator_without_a_deterministic_kernel(shim):
    names = set(run_check(SCRIPT, "operators", shim=shim))
    assert {"convolution_backward", "native_layer_norm_backward", "cumsum_int"} <= names
    assert names & REFUSED == set()


def test_such_an_operator_would_be_seen(shim):
    assert {"grid_sampler_2d_backward", "cumsum_float"} <= set(
        run_check(SCRIPT, "refused", shim=shim)
    )
