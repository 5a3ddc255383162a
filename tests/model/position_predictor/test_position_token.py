import math

import torch

from semimedref.model.position_predictor.cost import count_parameters
from semimedref.model.position_predictor.position_token import PositionToken


def token(**changes):
    return PositionToken(**{"regions": 6, "hidden": 192, "width": 768, "gate": -2.0, **changes})


def test_projector_has_the_published_size():
    made = token()
    assert count_parameters(made.projector) == 6 * 192 + 192 + 192 * 768 + 768 + 2 * 768 == 151_104
    assert count_parameters(made) == 151_105


def test_equation_ispg_token_starts_behind_a_nearly_closed_gate():
    made = token()
    position = torch.rand(3, 6)
    found = made(position)
    assert found.shape == (3, 768)
    torch.testing.assert_close(found, made.projector(position) / (1 + math.exp(2)))
    # a LayerNorm's output has unit variance: what is left is the gate, 0.119
    torch.testing.assert_close(
        found.std(1, correction=0), torch.full((3,), 0.1192), atol=1e-3, rtol=0
    )


def test_token_differs_between_positions_and_takes_any_number_of_regions():
    a, b = token(regions=5)(torch.eye(5)[:2])
    assert (a - b).abs().max() > 1e-3


def test_gradient_reaches_gate_projector_and_position():
    made, position = token(), torch.rand(2, 6, requires_grad=True)
    made(position).square().sum().backward()
    assert made.gate.grad != 0
    assert all(p.grad is not None for p in made.parameters())
    assert position.grad is not None
