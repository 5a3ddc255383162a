import pytest
import torch

from semimedref.model.losses import dice


def test_dice_is_a_mean_over_images_of_sums_over_pixels():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [40.0, 40.0, -40.0, -40.0]]).view(2, 1, 2, 2)
    target = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]).view(2, 1, 2, 2)
    # 1 - 2 * 1 / (2 + 2) = 1 / 2 and 1 - 2 * 1 / (2 + 1) = 1 / 3
    assert dice(logits, target).item() == pytest.approx((1 / 2 + 1 / 3) / 2, abs=1e-5)


def test_an_empty_mask_that_is_found_empty_costs_nothing():
    empty = torch.zeros(1, 1, 4, 4)
    assert dice(empty - 60, empty).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.slow  # the import is
def test_dice_equals_the_library_that_the_networks_were_trained_with():
    monai = pytest.importorskip("monai.losses")
    logits, target = torch.randn(3, 1, 8, 8), (torch.rand(3, 1, 8, 8) > 0.6).float()
    torch.testing.assert_close(dice(logits, target), monai.DiceLoss(sigmoid=True)(logits, target))
