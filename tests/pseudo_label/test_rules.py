import math

import pytest
import torch

from semimedref.pseudo_label.hard import Hard
from semimedref.pseudo_label.soft import Soft


def test_equation_pseudo_labeling_keeps_pixels_at_or_above_delta():
    p = torch.tensor([0.54, 0.55, 0.56, 0.0, 1.0], dtype=torch.float64)
    assert Hard(threshold=0.55)(p).tolist() == [0, 1, 1, 0, 1]


def test_equation_soft_pseudo_labels_is_a_sigmoid_around_delta():
    target = Soft(threshold=0.55, temperature=0.05)(torch.tensor([0.55, 0.65]))
    assert target.tolist() == pytest.approx([0.5, 1 / (1 + math.exp(-2))])


def test_soft_pseudo_labels_tend_to_hard_ones_as_the_temperature_falls():
    p = torch.tensor([0.0, 0.3, 0.5, 0.549, 0.551, 0.6, 0.9, 1.0], dtype=torch.float64)
    hard = Hard(threshold=0.55)(p)
    gaps = [
        float((Soft(threshold=0.55, temperature=t)(p) - hard).abs().max())
        for t in (0.05, 0.005, 0.0005, 0.00005)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.4 and gaps[-1] == pytest.approx(1 / (1 + math.exp(20)), rel=1e-6)
