"""Every tensor of LAVT's published checkpoint is one of ours, or has a reason not to be."""

from __future__ import annotations

from collections import Counter

import torch

from semimedref.config import build, compose
from semimedref.model.published.catalog import published_shapes
from semimedref.model.published.lavt import SOURCE


def test_names_map_one_to_one_with_equal_shapes():
    published = published_shapes("lavt")
    assert len(published) == 480
    with torch.device("meta"):
        network = build(compose(list(SOURCE.overrides)), "model")
    own = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    names = SOURCE.translated(published)
    assert len(set(names.values())) == len(names)
    assert {ours: published[theirs] for theirs, ours in names.items()} == own


def test_what_is_left_out_has_a_reason():
    published = published_shapes("lavt")
    reasons = Counter(SOURCE.reason(key) for key in published)
    assert reasons == {
        None: 480 - 12 - 2,
        "counted, not learned": 12,
        "the last gate, whose result goes nowhere": 2,
    }


def test_merging_moves_to_the_next_level_and_the_decoder_counts_from_the_last_map_up():
    assert SOURCE.ours("backbone.layers.0.downsample.reduction.weight") == (
        "image_encoder.levels.1.down.reduction.weight"
    )
    assert SOURCE.ours("classifier.bn2_3.running_var") == "decoder.blocks.1.4.running_var"
    assert SOURCE.ours("backbone.layers.2.fusion.image_lang_att.W.0.bias") == "fusion.2.out.bias"
    assert SOURCE.ours("backbone.layers.2.fusion.other") is None
