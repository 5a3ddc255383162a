"""The published names of GuideDecoder and FMISeg, and what they mean at the published size."""

import pytest
import torch
from torch import nn

from semimedref.config import build, compose
from semimedref.model.published.catalog import published_shapes, source_of
from semimedref.torchvision_shim import import_torchvision

# Tensors in the released state dict, and those of them without a counterpart.
COUNTS = {"guide_decoder": (510, 13 + 6 + 4 + 6), "fmiseg": (950, 13 + 6 + 8 + 18)}
both = pytest.mark.parametrize("name", sorted(COUNTS))


@pytest.fixture(scope="module")
def network():
    """Networks at their published size, without data."""
    known = {}

    def get(name):
        if name not in known:
            with torch.device("meta"):
                known[name] = build(compose([*source_of(name).overrides]), "model")
        return known[name]

    return get


@both
def test_every_published_tensor_has_a_counterpart_or_a_reason(name):
    source, shapes = source_of(name), published_shapes(name)
    left_out = [key for key in shapes if source.reason(key) is not None]
    assert (len(shapes), len(left_out)) == COUNTS[name]
    assert [k for k in shapes if k not in left_out and source.ours(k) is None] == []


@both
def test_counterparts_are_one_to_one_and_of_the_same_shape(name, network):
    source, shapes = source_of(name), published_shapes(name)
    names = source.translated(shapes)
    assert len(set(names.values())) == len(names)
    own = {key: tuple(x.shape) for key, x in network(name).state_dict().items()}
    assert {ours: shapes[theirs] for theirs, ours in names.items()} == {
        key: own.get(key) for key in names.values()
    }
    learned = {key for key in own if not key.startswith("text_encoder.")}
    assert learned <= set(names.values())
    learned_text = {key for key, _ in network(name).text_encoder.named_parameters()}
    assert {f"text_encoder.{key}" for key in learned_text} <= set(names.values())


@pytest.mark.slow
@both
@torch.no_grad()
def test_the_published_trunk_is_the_one_of_transformers(name):
    import_torchvision()
    from transformers import ConvNextConfig, ConvNextModel

    from semimedref.model.encoders.convnext import ConvNeXtTiny

    torch.manual_seed(0)
    published = ConvNextModel(ConvNextConfig()).eval()
    for p in published.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, mean=0.5, std=0.3)
    image = torch.randn(1, 3, 64, 64)
    expected = published(image, output_hidden_states=True).hidden_states[1:]
    source = source_of(name)
    trunks = {"encoder": "image_encoder."}
    if name == "fmiseg":
        trunks["encoder2"] = "image_encoder_2."
    for theirs, ours in trunks.items():
        state = {f"{theirs}.model.{key}": x for key, x in published.state_dict().items()}
        renamed = {new.removeprefix(ours): state[k] for k, new in source.translated(state).items()}
        trunk = ConvNeXtTiny(weights="random").eval()
        trunk.load_state_dict(renamed)
        for found, wanted in zip(trunk(image), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
