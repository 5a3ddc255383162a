"""Position tables of a checkpoint: the usual ones are computed, others are taken over."""

import pytest
import torch

from semimedref.model.blocks import position_code_1d
from semimedref.model.published.catalog import published_shapes, source_of
from semimedref.model.published.matching import empty_network
from semimedref.model.swin import WindowAttention
from semimedref.model.text_mixing import PositionCode


def test_the_sinusoidal_table_is_computed_and_another_one_is_used():
    code, tokens = PositionCode(), torch.zeros(1, 6, 8)
    usual = position_code_1d(5000, 8, torch.device("cpu"))
    code.take(usual[None])
    assert code.table is None
    assert torch.equal(code(tokens)[0], usual[:6])
    code.take(usual[None].double().add(1e-6).float())  # of another machine: kept as it is
    assert code.table is not None
    other = torch.randn(4, 8)
    code.take(other[None])
    assert torch.equal(code(tokens)[0], torch.cat([other, usual[4:6]]))
    assert "table" not in code.state_dict()


def test_the_index_of_a_window_is_taken_over():
    attention = WindowAttention(8, heads=2, window=3)
    index = attention.offset.flip(0)
    attention.take(index.float())
    assert torch.equal(attention.offset, index)


@pytest.mark.parametrize(
    ("source", "tables"),
    [("guide_decoder", 6), ("fmiseg", 18), ("textmoe_seg", 18), ("lavt", 12)],
)
def test_every_published_table_has_a_place(source, tables):
    known, network = source_of(source), empty_network(source_of(source))
    keys = [key for key in published_shapes(source) if key.endswith((".pe", "_position_index"))]
    assert len(keys) == tables
    places = {known.table(key) for key in keys}
    assert len(places) == tables
    for place in places:
        assert hasattr(network.get_submodule(place), "take")
