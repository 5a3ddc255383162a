import math

import pytest
import torch

from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.model.losses import dice


def test_equation_sup_by_hand_for_two_pixels():
    logits = torch.tensor([0.0, math.log(3.0)]).reshape(1, 1, 1, 2)  # p = 0.5 and 0.75
    target = torch.tensor([1.0, 0.0]).reshape(1, 1, 1, 2)
    dice = 1 - (2 * 0.5 + 1e-5) / (1.25 + 1 + 1e-5)
    bce = -(math.log(0.5) + math.log(0.25)) / 2
    loss = SegmentationLoss(cross_entropy=True, smooth=1e-5)(logits, target)
    assert float(loss) == pytest.approx(dice + bce, abs=1e-6)
    assert float(
        SegmentationLoss(cross_entropy=False, smooth=1e-5)(logits, target)
    ) == pytest.approx(dice)


def test_dice_is_averaged_over_images_and_not_pooled():
    logits = torch.full((2, 1, 2, 2), 20.0)
    target = torch.stack([torch.ones(1, 2, 2), torch.zeros(1, 2, 2)])
    assert float(dice(logits, target, smooth=1e-5)) == pytest.approx((0 + 1) / 2, abs=1e-4)


@pytest.mark.slow
def test_dice_agrees_with_monai():
    monai = pytest.importorskip("monai.losses")
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 1, 8, 8, generator=generator)
    target = (torch.rand(4, 1, 8, 8, generator=generator) > 0.7).float()
    theirs = monai.DiceLoss(sigmoid=True, smooth_nr=1e-5, smooth_dr=1e-5)(logits, target)
    torch.testing.assert_close(dice(logits, target, smooth=1e-5), theirs)


@pytest.mark.slow
@pytest.mark.parametrize("soft", [False, True])
def test_dice_plus_bce_equals_monais(soft):
    monai = pytest.importorskip("monai.losses")
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(4, 1, 8, 8, generator=generator)
    target = torch.rand(4, 1, 8, 8, generator=generator)
    target = target if soft else (target > 0.7).float()
    ours = SegmentationLoss(cross_entropy=True, smooth=1e-5)(logits, target)
    dice = monai.DiceLoss(sigmoid=True, smooth_nr=1e-5, smooth_dr=1e-5)(logits, target)
    torch.testing.assert_close(ours, dice + torch.nn.BCEWithLogitsLoss()(logits, target))
    both = monai.DiceCELoss(sigmoid=True)(logits, target)  # one channel: binary cross-entropy
    torch.testing.assert_close(ours, both)
