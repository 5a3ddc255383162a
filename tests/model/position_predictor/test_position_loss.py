import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.model.position_predictor.loss import (
    PositionLoss,
    asymmetric_focal,
    count_distance,
    positive_weight,
)

RELEASE = {
    "weight_bce": 0.5,
    "weight_focal": 0.5,
    "weight_count": 0.1,
    "gamma_positive": 0.0,
    "gamma_negative": 2.0,
}
# p = 3/4 where the region is named, p = 1/3 where it is not
LOGITS, Q = torch.tensor([[math.log(3), -math.log(2)]]), torch.tensor([[1.0, 0.0]])


def test_position_loss_by_hand():
    named, not_named = -math.log(3 / 4), -math.log(2 / 3)
    bce = (named + not_named) / 2
    focal = (named + (1 / 3) ** 2 * not_named) / 2
    count = 0.5 * ((3 / 4 + 1 / 3) / 2 - 1 / 2) ** 2  # quadratic below a distance of 1
    expected = 0.5 * bce + 0.5 * focal + 0.1 * count
    assert expected == pytest.approx(0.256557, abs=1e-6)
    assert PositionLoss(**RELEASE)(LOGITS, Q).item() == pytest.approx(expected)


def test_asymmetric_focal_loss_with_both_exponents_by_hand():
    found = asymmetric_focal(LOGITS, Q, gamma_positive=1.0, gamma_negative=3.0)
    expected = (1 / 4 * -math.log(3 / 4) + (1 / 3) ** 3 * -math.log(2 / 3)) / 2
    assert found.item() == pytest.approx(expected)


def test_focal_loss_without_exponents_is_cross_entropy():
    logits, q = torch.randn(4, 6), torch.rand(4, 6).round()
    found = asymmetric_focal(logits, q, gamma_positive=0.0, gamma_negative=0.0)
    torch.testing.assert_close(found, F.binary_cross_entropy_with_logits(logits, q))


def test_count_distance_compares_each_image_with_its_own_number_of_regions():
    logits = torch.tensor([[0.0, 0.0], [math.log(3), math.log(3)]])  # shares 1/2 and 3/4
    q = torch.tensor([[1.0, 1.0], [1.0, 0.0]])  # shares 1 and 1/2
    assert count_distance(logits, q).item() == pytest.approx((0.5 * 0.25 + 0.5 * 0.0625) / 2)


def test_loss_of_extreme_logits_is_finite_with_finite_gradient():
    logits = torch.tensor([[200.0, -200.0, 200.0, -200.0]], requires_grad=True)
    loss = PositionLoss(**RELEASE)(logits, torch.tensor([[0.0, 1.0, 1.0, 0.0]]))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_positive_weight_is_negatives_over_positives_within_its_limits():
    q = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 1]])
    found = positive_weight(q, lowest=0.3, highest=3.5)
    assert found.tolist() == pytest.approx([0.3, 3.5, 3.5, 1.5])  # 1/4, 4/1, 5/0, 3/2
