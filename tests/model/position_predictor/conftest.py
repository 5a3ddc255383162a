from functools import partial

import pytest
import torch

from semimedref.model.encoders.convnext import ConvNeXtTiny
from semimedref.model.position_predictor.gap_mlp import GapMlp
from semimedref.model.position_predictor.region_pool import RegionPool
from semimedref.model.position_predictor.region_queries import RegionQueries
from semimedref.text.vocabulary import LUNGS, QUADRANTS

PAPER = {
    "gap_mlp": partial(GapMlp, hidden=384, dropout=0.2),
    "region_pool": partial(RegionPool, hidden=384, dropout=0.2, mirrored=False),
    "six_query": partial(
        RegionQueries, layers=2, heads=8, ffn_width=1536, dropout=0.2, query_std=0.02
    ),
}


@pytest.fixture(scope="session")
def boxes():
    """Left, then right; upper, middle, lower."""
    return LUNGS.boxes


@pytest.fixture(scope="session")
def quadrants():
    """Four quarters and the middle."""
    return QUADRANTS.boxes


@pytest.fixture(scope="session")
def paper_head():
    """Heads at the paper's size: paper_head["gap_mlp"](width=768, boxes=boxes)."""
    return PAPER


@pytest.fixture(scope="session")
def paper_trunk():
    """ConvNeXt-Tiny without memory: shapes only."""
    with torch.device("meta"):
        return ConvNeXtTiny(weights="random")
