import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from semimedref.planning.meter import FusedAttention, Meter


def flops_of(build, shape, *, backward=True):
    with FakeTensorMode(), Meter() as meter:
        out = build()(torch.empty(shape))
        if backward:
            out.sum().backward()
    return meter.flops


def test_a_convolution_and_a_linear_layer_count_as_by_hand():
    convolution = 2 * (2 * 8 * 8) * (3 * 1 * 3 * 3)  # 2 images of 64 places, 27 weights
    linear = 2 * 2 * (192 * 5)

    def build():
        return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Flatten(), nn.Linear(192, 5))

    assert flops_of(build, (2, 1, 8, 8), backward=False) == convolution + linear
    # backward: weight and input of the linear layer, the weight alone of the first layer
    assert flops_of(build, (2, 1, 8, 8)) == 2 * convolution + 3 * linear


def test_the_gradient_of_a_depthwise_convolution_does_not_mix_channels():
    first, depthwise = 2 * 36 * 4, 2 * 36 * (4 * 1 * 9)  # 36 places

    def build():
        return nn.Sequential(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4))

    assert flops_of(build, (1, 1, 6, 6)) == 2 * first + 3 * depthwise


def test_a_transposed_convolution_counts_by_the_places_that_it_reads():
    first, up = 2 * 9 * 2, 2 * 9 * (2 * 5 * 2 * 2)

    def build():
        return nn.Sequential(nn.Conv2d(1, 2, 1), nn.ConvTranspose2d(2, 5, 2, stride=2))

    assert flops_of(build, (1, 1, 3, 3)) == 2 * first + 3 * up


def test_fake_tensors_count_as_torchs_own_counter_does_on_real_ones():
    def build():
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(1), nn.Linear(144, 7)
        )

    with FlopCounterMode(display=False) as counter:
        build()(torch.zeros(3, 1, 8, 8)).sum().backward()
    assert flops_of(build, (3, 1, 8, 8)) == counter.get_total_flops()


def test_attention_needs_no_matrix_of_all_pairs_and_counts_two_products():
    n, width = 256, 8
    with FakeTensorMode(), FusedAttention(), Meter() as meter:
        q, k, v = (torch.empty(1, 2, n, width, requires_grad=True) for _ in range(3))
        out = scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        forward = meter.flops
        out.sum().backward()
    assert forward == 2 * (2 * 2 * n * n * width)  # heads x (scores and sums)
    assert meter.flops == forward + 5 * (2 * 2 * n * n * width)  # scores once more, 4 gradients
    assert meter.peak < 2 * n * n * 4


def test_memory_is_what_is_alive_and_its_peak():
    with FakeTensorMode(), Meter() as meter:
        a = torch.empty(1000)
        b = a + 1
        del a
        c = b.reshape(10, 100)  # a view takes nothing
        assert (meter.live, meter.peak) == (4000, 8000)
        b.add_(1)
        del b
        assert meter.live == 4000
        del c
    assert (meter.live, meter.peak) == (0, 8000)
    assert meter.kernels == 3  # made, added, added in place
