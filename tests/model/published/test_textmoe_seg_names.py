"""Every tensor of TextMoE-Seg's published checkpoint is one of ours, or has a reason not to be."""

import pytest
import torch

from semimedref.config import build, compose
from semimedref.model.blocks import position_code_1d
from semimedref.model.published.catalog import published_shapes, source_of

SOURCE = source_of("textmoe_seg")
SHAPES = published_shapes("textmoe_seg")


@pytest.fixture(scope="module")
def network():
    """The network at its published size, without data."""
    with torch.device("meta"):
        return build(compose([*SOURCE.overrides]), "model")


def test_every_published_tensor_has_a_counterpart_or_a_reason():
    left_out = [key for key in SHAPES if SOURCE.reason(key) is not None]
    heads, norm, codes = 7 + 6, 2, 6 * (1 + 2)
    assert (len(SHAPES), len(left_out)) == (586, heads + norm + codes)
    assert [k for k in SHAPES if k not in left_out and SOURCE.ours(k) is None] == []


def test_counterparts_are_one_to_one_and_of_the_same_shape(network):
    names = SOURCE.translated(SHAPES)
    assert len(set(names.values())) == len(names)
    own = {key: tuple(x.shape) for key, x in network.state_dict().items()}
    assert {ours: SHAPES[theirs] for theirs, ours in names.items()} == own


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("block1.moe_conv1.text_project.2.weight", "decoder.0.conv1.text.2.weight"),
        ("block2.moe_conv2.experts.1.conv.bias", "decoder.1.conv2.experts.1.conv.bias"),
        ("block3.moe_conv1.experts.0.cross_attn.in_proj_bias",
         "decoder.2.conv1.experts.0.attention.in_proj_bias"),
        ("block3.bn2.running_var", "decoder.2.norm2.running_var"),
        ("block1.moe_conv2.scale", "decoder.0.conv2.scale"),
        ("out.conv.conv.weight", "head.out.weight"),
    ],
)  # fmt: skip
def test_names_are_translated(theirs, ours):
    assert SOURCE.ours(theirs) == ours


def test_the_tables_that_are_left_out_can_be_computed():
    tables = {key: shape for key, shape in SHAPES.items() if key.endswith(".pe")}
    for key, (one, length, width) in tables.items():
        assert one == 1 and length == (24 if "txt_pos" in key else 5000)
        assert position_code_1d(length, width, torch.device("cpu")).shape == (length, width)


def test_the_published_interface_takes_the_data_set_of_each_image():
    cfg = compose(["scale=smoke", "model=textmoe_seg", "text_encoder.cache=false"])
    small = build(cfg, "model").eval()
    image, ids = torch.randn(2, 1, 96, 96), torch.randint(5, 500, (2, 24))
    mask = torch.ones(2, 24, dtype=torch.long)
    with torch.no_grad():
        first = SOURCE.forward(small, image, ids, mask, torch.tensor([0, 0]))
        second = SOURCE.forward(small, image, ids, mask, torch.tensor([0, 1]))
    assert first.shape == (2, 3, 96, 96)
    torch.testing.assert_close(first[0], second[0])
    assert not torch.allclose(first[1], second[1])
