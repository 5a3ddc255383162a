import math

import pytest
import torch

from semimedref.model.losses import balanced_dice_bce, dice, rounded_dice_bce


def test_dice_is_a_mean_over_images_of_sums_over_pixels():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [40.0, 40.0, -40.0, -40.0]]).view(2, 1, 2, 2)
    target = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]).view(2, 1, 2, 2)
    # 1 - 2 * 1 / (2 + 2) = 1 / 2 and 1 - 2 * 1 / (2 + 1) = 1 / 3
    assert dice(logits, target).item() == pytest.approx((1 / 2 + 1 / 3) / 2, abs=1e-5)


def test_an_empty_mask_that_is_found_empty_costs_nothing():
    empty = torch.zeros(1, 1, 4, 4)
    assert dice(empty - 60, empty).item() == pytest.approx(0, abs=1e-6)


def test_soft_pixels_are_rounded_to_one_class_as_released():
    x, g = [0.5, -1.0, 2.0], [0.8, 0.2, 0.6]
    cost = [math.log1p(math.exp(a)) - a * b for a, b in zip(x, g, strict=True)]  # of soft targets
    p = [1 / (1 + math.exp(-a)) for a in x]
    squares = sum(a * a for a in p) + sum(a * a for a in g)
    overlap = 1 - (2 * sum(a * b for a, b in zip(p, g, strict=True)) + 4e-5) / (squares + 4e-5)
    expected = 0.5 * overlap + 0.25 * (cost[0] + cost[2]) / 2 + 0.25 * cost[1]
    found = rounded_dice_bce(torch.tensor(x).view(1, 1, 1, 3), torch.tensor(g).view(1, 1, 1, 3))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_of_hard_masks_rounding_changes_nothing():
    g = torch.Generator().manual_seed(0)
    logits, target = (
        torch.randn(2, 1, 4, 4, generator=g),
        torch.rand(2, 1, 4, 4, generator=g).round(),
    )
    torch.testing.assert_close(rounded_dice_bce(logits, target), balanced_dice_bce(logits, target))


@pytest.mark.slow  # the import is
def test_dice_equals_the_library_that_the_networks_were_trained_with():
    monai = pytest.importorskip("monai.losses")
    logits, target = torch.randn(3, 1, 8, 8), (torch.rand(3, 1, 8, 8) > 0.6).float()
    torch.testing.assert_close(dice(logits, target), monai.DiceLoss(sigmoid=True)(logits, target))
