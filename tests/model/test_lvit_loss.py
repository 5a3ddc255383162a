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


def test_a_soft_pixel_belongs_to_one_class_and_keeps_its_value():
    p, g = (0.6, 0.3, 0.9), (0.8, 0.2, 0.6)
    found = balanced_dice_bce(_logits(*p), _target(*g))
    cost = [-b * math.log(a) - (1 - b) * math.log(1 - a) for a, b in zip(p, g, strict=True)]
    overlap = sum(a * b for a, b in zip(p, g, strict=True))
    dice = 1 - 2 * overlap / (sum(a * a for a in p) + sum(b * b for b in g))
    expected = 0.5 * dice + 0.25 * (cost[0] + cost[2]) / 2 + 0.25 * cost[1]
    assert found.item() == pytest.approx(expected, abs=1e-4)


def test_a_rare_lesion_does_not_lift_doubtful_pixels():
    """Of its cross-entropy alone, a background pixel with target 0.1 is best at 0.1."""
    target = _target(1.0, *[0.1] * 30)
    logits = _logits(0.9, *[0.1] * 30).requires_grad_()
    balanced_dice_bce(logits, target).backward()
    lifted = logits.grad[0, 0, 0, 1:]
    logits.grad = None
    p, g = logits.sigmoid().flatten(), target.flatten()
    (0.5 * (1 - 2 * (p * g).sum() / (p.square().sum() + g.square().sum()))).backward()
    torch.testing.assert_close(lifted, logits.grad[0, 0, 0, 1:], atol=1e-5, rtol=0)


def test_native_is_this_loss_and_shared_is_the_one_of_all_networks():
    model = LViT.__new__(LViT)
    outputs, target = Outputs(torch.randn(2, 1, 4, 4)), torch.ones(2, 1, 4, 4)
    object.__setattr__(model, "loss", "native")
    native = model.objective(outputs, target, lambda *_: torch.tensor(7.0))
    assert torch.equal(native, balanced_dice_bce(outputs.logits, target))
    object.__setattr__(model, "loss", "shared")
    assert model.objective(outputs, target, lambda *_: torch.tensor(7.0)) == 7
