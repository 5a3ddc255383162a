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
