"""LViT's loss, with numbers worked out by hand."""

import math

import pytest
import torch

from semimedref.model.losses import balanced_dice_bce
from semimedref.model.lvit import LViT
from semimedref.model.segmenter import Outputs


def _logits(*probabilities):
    return torch.tensor(probabilities).logit().view(1, 1, 1, -1)


def _target(*values):
    return torch.tensor(values, dtype=torch.float32).view(1, 1, 1, -1)


def test_one_image_by_hand():
    found = balanced_dice_bce(_logits(0.8, 0.4, 0.1, 0.2), _target(1, 1, 0, 0))
    overlap, sizes = 0.8 + 0.4, 0.64 + 0.16 + 0.01 + 0.04 + 2
    dice = 1 - (2 * overlap / 4 + 1e-5) / (sizes / 4 + 1e-5)  # both maps are halved first
    lesion = -(math.log(0.8) + math.log(0.4)) / 2
    background = -(math.log(0.9) + math.log(0.8)) / 2
    assert found.item() == pytest.approx(0.5 * dice + 0.25 * lesion + 0.25 * background, abs=1e-6)


def test_dice_is_of_each_image_and_classes_are_of_the_batch():
    logits = torch.cat([_logits(0.9, 0.9), _logits(0.3, 0.3)])
    target = torch.cat([_target(1, 1), _target(1, 0)])
    dice = [1 - 2 * 1.8 / (1.62 + 2), 1 - 2 * 0.3 / (0.18 + 1)]
    lesion, background = -(2 * math.log(0.9) + math.log(0.3)) / 3, -math.log(0.7)
    expected = 0.25 * sum(dice) + 0.25 * lesion + 0.25 * background
    assert balanced_dice_bce(logits, target).item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_batch_of_one_class_has_a_finite_loss_and_gradient(value):
    logits = torch.randn(2, 1, 4, 4).mul(50).requires_grad_()
    loss = balanced_dice_bce(logits, torch.full((2, 1, 4, 4), value))
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()


def test_soft_targets_belong_to_both_classes():
    soft = balanced_dice_bce(_logits(0.6, 0.6), _target(0.25, 0.25))
    dice = 1 - 2 * 0.3 / (0.72 + 0.125)
    expected = 0.5 * dice - 0.25 * (math.log(0.6) + math.log(0.4))
    assert soft.item() == pytest.approx(expected, abs=1e-4)


def test_native_is_this_loss_and_shared_is_the_one_of_all_networks():
    model = LViT.__new__(LViT)
    outputs, target = Outputs(torch.randn(2, 1, 4, 4)), torch.ones(2, 1, 4, 4)
    object.__setattr__(model, "loss", "native")
    native = model.objective(outputs, target, lambda *_: torch.tensor(7.0))
    assert torch.equal(native, balanced_dice_bce(outputs.logits, target))
    object.__setattr__(model, "loss", "shared")
    assert model.objective(outputs, target, lambda *_: torch.tensor(7.0)) == 7
