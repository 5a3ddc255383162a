"""Every published tensor of LViT is one of ours, or is listed with the reason why not."""

from __future__ import annotations

from math import prod

import pytest
import torch

from semimedref.config import build, compose
from semimedref.model.published.catalog import published_shapes
from semimedref.model.published.lvit import SOURCE

LISTED = published_shapes("lvit")


@pytest.fixture(scope="module")
def network():
    with torch.device("meta"):
        return build(compose(list(SOURCE.overrides)), "model")


def _learned(key: str) -> bool:
    return not key.endswith(("running_mean", "running_var", "num_batches_tracked"))


def test_names_map_one_to_one_onto_ours_with_equal_shapes(network):
    names = SOURCE.translated(LISTED)
    own = {k: tuple(v.shape) for k, v in network.trainable_state().items()}
    assert len(set(names.values())) == len(names)
    assert {ours: LISTED[theirs] for theirs, ours in names.items()} == own


def test_all_others_are_unused_for_a_reason_and_as_large_as_known():
    names = SOURCE.translated(LISTED)
    others = [key for key in LISTED if key not in names]
    assert all(SOURCE.reason(key) for key in others)
    assert sum(prod(LISTED[key]) for key in others if _learned(key)) == 10_025_312
    assert sum(prod(shape) for key, shape in LISTED.items() if _learned(key)) == 39_933_345


def test_every_reason_is_one_of_a_tensor_that_no_rule_takes():
    import re

    for pattern, _ in SOURCE.unused:
        assert any(re.fullmatch(pattern, key) for key in LISTED), pattern
    for pattern, _ in SOURCE.rules:
        taken = [key for key in LISTED if re.fullmatch(pattern, key)]
        assert taken and not any(SOURCE.reason(key) for key in taken), pattern


def test_the_published_settings_are_those_of_the_release():
    config = compose(list(SOURCE.overrides))
    scale = config.scale
    assert (scale.optimizer, scale.lr, scale.min_lr) == ("adam", 3e-4, 1e-4)
    assert (scale.lr_shape, scale.cosine_epochs, scale.lr_update) == ("restarts", 10, "epoch")
    assert (scale.weight_decay, scale.batch_size, scale.image_side) == (0, 24, 224)
    assert config.text_encoder.max_tokens == 10 and config.text_encoder.max_pieces == 25
