import pytest
import torch
import torch.nn.functional as F
from torch import nn

from semimedref.errors import UserError
from semimedref.model.blocks import position_code_2d
from semimedref.model.position_predictor.gap_mlp import GapMlp
from semimedref.model.position_predictor.predictor import PositionPredictor
from semimedref.model.position_predictor.region_pool import RegionPool
from semimedref.model.position_predictor.region_queries import QueryLayer, RegionQueries
from semimedref.model.position_predictor.regions import cells, mirror
from semimedref.text.vocabulary import Box

SMALL = {
    "gap_mlp": lambda **given: GapMlp(**given, hidden=8, dropout=0.2),
    "region_pool": lambda **given: RegionPool(**given, hidden=8, dropout=0.2, mirrored=False),
    "six_query": lambda **given: RegionQueries(
        **given, layers=2, heads=4, ffn_width=8, dropout=0.2, query_std=0.02
    ),
}


def borders(part):
    return [(s.start, s.stop) for s in part]


def test_boxes_on_the_published_map_are_the_published_cells(boxes):
    rows, columns = [(0, 2), (2, 5), (5, 7)], [(0, 3), (3, 7)]
    expected = [[r, c] for c in columns for r in rows]
    assert [borders(cells(box, 7, 7)) for box in boxes] == expected


@pytest.mark.parametrize("side", [3, 4, 5, 6, 7, 9, 14])
def test_lung_boxes_share_out_every_cell_of_a_map(boxes, side):
    seen = torch.zeros(side, side)
    for box in boxes:
        seen[cells(box, side, side)] += 1
    assert seen.eq(1).all()


def test_every_box_holds_a_cell_of_the_smallest_map(boxes):
    for box in boxes:
        assert borders(cells(box, 1, 1)) == [(0, 1), (0, 1)]


def test_mirror_swaps_left_and_right(boxes):
    assert [mirror(box) for box in boxes] == [*boxes[3:], *boxes[:3]]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("regions", ["boxes", "quadrants"])
def test_number_of_regions_comes_from_the_vocabulary(name, regions, option, request):
    regions = request.getfixturevalue(regions)
    predictor = PositionPredictor(option("image_encoder", "tiny"), SMALL[name], boxes=regions)
    logits = predictor(torch.randn(2, 1, 96, 96))
    assert logits.shape == (2, len(regions))
    logits.sum().backward()
    assert all(p.grad is not None for p in predictor.parameters())


@pytest.mark.parametrize(("mirrored", "answers"), [(False, 0), (True, 3)])
def test_left_of_the_report_is_left_of_the_image_unless_mirrored(boxes, mirrored, answers):
    head = RegionPool(width=16, boxes=boxes, hidden=8, dropout=0.2, mirrored=mirrored).eval()
    dark = torch.randn(1, 16, 7, 7)
    lit = dark.clone()
    lit[:, :, 0, 0] += torch.randn(16)  # upper left corner of the image
    changed = (head(lit) - head(dark)).abs() > 1e-6
    assert changed[0].nonzero().flatten().tolist() == [answers]  # 0: left upper, 3: right upper


def test_region_pool_is_a_network_of_its_own_for_each_region(boxes):
    head = RegionPool(width=16, boxes=boxes, hidden=8, dropout=0.2, mirrored=False).eval()
    image_map = torch.randn(3, 16, 7, 7)
    first, last = head.layers[0], head.layers[-1]
    expected = []
    for k, box in enumerate(boxes):
        x = head.norm(image_map[(slice(None), slice(None), *cells(box, 7, 7))].mean((2, 3)))
        own = slice(8 * k, 8 * (k + 1))
        x = F.gelu(x @ first.weight[own, :, 0].T + first.bias[own])
        expected.append(x @ last.weight[k, :, 0] + last.bias[k])
    torch.testing.assert_close(head(image_map), torch.stack(expected, dim=1))


def test_global_average_does_not_know_where(boxes):
    head = SMALL["gap_mlp"](width=16, boxes=boxes).eval()
    image_map = torch.randn(2, 16, 7, 7)
    torch.testing.assert_close(head(image_map.flip(3)), head(image_map))


def test_queries_know_where(boxes):
    head = SMALL["six_query"](width=16, boxes=boxes).eval()
    image_map = torch.randn(2, 16, 7, 7)
    assert (head(image_map.flip(3)) - head(image_map)).abs().max() > 1e-5


def test_query_layer_equals_the_pre_norm_decoder_layer_of_torch():
    ours = QueryLayer(16, heads=4, ffn_width=24, dropout=0.2).eval()
    torchs = nn.TransformerDecoderLayer(
        16, 4, 24, 0.2, activation="gelu", batch_first=True, norm_first=True
    ).eval()
    names = (("self_attention", "self_attn"), ("cross_attention", "multihead_attn"))
    names += (("ffn.0", "linear1"), ("ffn.3", "linear2"))
    state = {}
    for key, value in ours.state_dict().items():
        for mine, theirs in names:
            key = key.replace(f"{mine}.", f"{theirs}.")
        state[key] = value
    torchs.load_state_dict(state)
    x, memory = torch.randn(2, 6, 16), torch.randn(2, 49, 16)
    torch.testing.assert_close(ours(x, memory), torchs(x, memory))


def test_query_logit_is_its_own_dot_product(boxes):
    head = SMALL["six_query"](width=16, boxes=boxes).eval()
    nn.init.normal_(head.bias)
    image_map = torch.randn(2, 16, 3, 5)
    memory = image_map.flatten(2).mT + position_code_2d(3, 5, 16, image_map.device)
    x = head.queries.expand(2, -1, -1)
    for layer in head.layers:
        x = layer(x, memory)
    x = head.norm(x)
    own = [x[:, k] @ head.classifier[k] + head.bias[k] for k in range(len(boxes))]
    torch.testing.assert_close(head(image_map), torch.stack(own, dim=1))


def test_heads_that_do_not_divide_the_width_are_refused(boxes):
    with pytest.raises(UserError, match="width 18 with 4 heads"):
        SMALL["six_query"](width=18, boxes=boxes)


def test_box_outside_the_image_is_our_bug():
    with pytest.raises(AssertionError, match=r"not inside the image: Box.*bottom=1\.5"):
        SMALL["region_pool"](width=16, boxes=[Box(top=0, bottom=1.5, left=0, right=1)])
