"""Costs are counted from the configuration."""

from semimedref import config
from semimedref.search.cost import forward_gflops


def test_a_larger_image_and_trunk_cost_more():
    def cost(*words):
        return forward_gflops(config.resolved(config.compose(["scale=smoke", *words])))

    small = cost()
    assert 0 < small < 1
    assert cost("scale.image_side=160") > small
    assert cost("image_encoder=small") > small
    assert cost() == small
