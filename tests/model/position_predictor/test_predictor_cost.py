import pytest
import torch
from torch import nn

from semimedref.model.position_predictor.cost import count_parameters, flops, gflops
from semimedref.model.position_predictor.position_token import PositionToken
from semimedref.model.position_predictor.predictor import PositionPredictor

# head, with one projector and gate, with both (the paper's column), GFLOPs at 224 px
PUBLISHED = {
    "gap_mlp": (299_142, 28_268_839, 28_419_944, "8.93"),
    "region_pool": (1_775_622, 29_745_319, 29_896_424, "8.94"),
    "six_query": (14_192_646, 42_162_343, 42_313_448, "9.31"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_predictor_has_the_published_size_and_cost(name, paper_head, paper_trunk, boxes):
    with torch.device("meta"):
        predictor = PositionPredictor(paper_trunk, paper_head[name], boxes=boxes)
        tokens = [PositionToken(regions=6, hidden=192, width=768, gate=-2.0) for _ in range(2)]
    found = (
        count_parameters(predictor.head),
        count_parameters(predictor, tokens[0]),
        count_parameters(predictor, *tokens),
        f"{gflops(predictor, 224):.2f}",
    )
    assert found == PUBLISHED[name]
    assert count_parameters(paper_trunk) == 27_818_592


def test_flops_of_the_small_head_by_hand(paper_head, boxes):
    head = paper_head["gap_mlp"](width=768, boxes=boxes)
    by_hand = 5 * 768 + 2 * 768 * 384 + 384 + 2 * 384 * 6
    assert flops(head, (1, 768, 7, 7)) == by_hand == 598_656


def test_flops_of_the_queries_by_hand(paper_head, boxes):
    K, N, C, F = 6, 49, 768, 1536
    self_attention = 2 * K * 4 * C * C + 2 * 2 * K * K * C
    cross_attention = 2 * K * 2 * C * C + 2 * N * 2 * C * C + 2 * 2 * K * N * C
    ffn = 2 * K * 2 * C * F + K * F  # with GELU
    layer = self_attention + cross_attention + ffn + 3 * 5 * K * C
    with torch.device("meta"):
        head = paper_head["six_query"](width=C, boxes=boxes)
    for training in (True, False):
        assert flops(head.train(training), (1, C, 7, 7)) == 2 * layer + 5 * K * C == 374_976_000


def test_flops_count_convolutions_and_scale_with_the_batch():
    conv = nn.Conv2d(3, 8, 3, padding=1)
    assert flops(conv, (2, 3, 4, 4)) == 2 * flops(conv, (1, 3, 4, 4)) == 2 * 2 * 16 * 8 * 27


def test_counting_neither_computes_nor_changes_the_module():
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    before = {key: value.clone() for key, value in module.state_dict().items()}
    gflops(module, 64)
    after = module.state_dict()
    assert {p.device.type for p in module.parameters()} == {"cpu"}
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_shared_parameter_is_counted_once():
    layer = nn.Linear(3, 4)
    assert count_parameters(layer, nn.Sequential(layer)) == 16
