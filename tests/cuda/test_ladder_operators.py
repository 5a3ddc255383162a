"""No operator of the ladder is on torch's list of those without a deterministic CUDA kernel."""

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


def test_the_ladder_calls_no_operator_without_a_deterministic_kernel(fake):
    names = set(fake("ladder_operators:operators"))
    assert {"convolution_backward", "native_layer_norm_backward", "cumsum_int"} <= names
    assert names & REFUSED == set()


def test_such_an_operator_would_be_seen(fake):
    seen = set(fake("ladder_operators:refused"))
    assert {"grid_sampler_2d_backward", "cumsum_float"} <= seen
