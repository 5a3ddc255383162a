import math

import pytest
import torch

from semimedref.model.losses import channel_dice_ce, dice


def _mask(batch=2, side=8):
    return (torch.rand(batch, 1, side, side) > 0.6).float()


def test_equal_channels_have_a_constant_cross_entropy_without_gradient():
    target = _mask()
    logits = torch.randn(2, 1, 8, 8).expand(-1, 3, -1, -1).clone().requires_grad_()
    extra = channel_dice_ce(logits, target) - dice(logits[:, :1], target)
    assert extra.item() == pytest.approx(3 * math.log(3) * target.mean().item(), abs=1e-5)
    extra = (
        channel_dice_ce(logits, target) - sum(dice(logits[:, [c]], target) for c in range(3)) / 3
    )
    (gradient,) = torch.autograd.grad(extra, logits)
    assert gradient.abs().max() < 1e-7


def test_dice_is_a_mean_over_images_and_channels():
    logits = torch.full((1, 3, 2, 2), -60.0)
    logits[0, 0, 0], logits[0, 1] = 60.0, 60.0
    target = torch.tensor([[[[1.0, 1.0], [0.0, 0.0]]]])
    # channel 0 is right, channel 1 is everywhere (1 - 2 * 2 / 6), channel 2 nowhere
    overlap = (0 + 1 / 3 + 1) / 3
    # lesion pixels have probabilities 1, 1, 0: two scores of 1 and one of 0
    total = math.log(2 * math.e + 1)
    entropy = (2 * (total - 1) + total) / 2
    assert channel_dice_ce(logits, target).item() == pytest.approx(overlap + entropy, abs=1e-5)


def test_the_loss_equals_the_library_that_the_network_was_trained_with():
    monai = pytest.importorskip("monai.losses")
    logits, target = torch.randn(3, 3, 8, 8), _mask(3)
    expected = monai.DiceCELoss()(logits.sigmoid(), target.expand(-1, 3, -1, -1))
    torch.testing.assert_close(channel_dice_ce(logits, target), expected)


def test_half_precision_is_summed_in_full():
    logits, target = torch.randn(1, 3, 64, 64), torch.ones(1, 1, 64, 64)
    found = channel_dice_ce(logits.bfloat16(), target)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, channel_dice_ce(logits, target), atol=1e-3, rtol=1e-3)
