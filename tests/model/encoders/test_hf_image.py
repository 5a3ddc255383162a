import json

import pytest
import torch
from torch import nn

from semimedref.errors import UserError
from semimedref.model.encoders.hf_image import HFImage


@pytest.fixture(scope="module")
def transformers():
    from semimedref.torchvision_shim import import_torchvision

    import_torchvision()
    import transformers

    return transformers


def _saved(net, folder):
    """Weights that a slip could not hide behind, in a folder as on the hub."""
    for p in net.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, 0.5, 0.3)
    net.eval().save_pretrained(folder)
    return net


@pytest.fixture
def swin(transformers, tmp_path):
    torch.manual_seed(0)
    config = transformers.SwinConfig(embed_dim=12, depths=[2, 2, 2, 2], num_heads=[1, 2, 3, 4])
    return _saved(transformers.SwinModel(config), tmp_path)


def _build(weights, states="inputs", **architecture):
    return HFImage(weights=str(weights), architecture=architecture, states=states).eval()


@torch.no_grad()
def test_swin_gives_hidden_states_0_to_3_as_maps(swin, tmp_path):
    encoder = _build(tmp_path)
    image = torch.randn(1, 1, 224, 224)
    maps = encoder(image)
    assert [x.shape[1:] for x in maps] == [(12, 56, 56), (24, 28, 28), (48, 14, 14), (96, 7, 7)]
    theirs = swin(image.expand(-1, 3, -1, -1), output_hidden_states=True).hidden_states
    for mine, other in zip(maps, theirs[:4], strict=True):
        torch.testing.assert_close(mine.flatten(2).transpose(1, 2), other)
    assert encoder.widths == (12, 24, 48, 96)


@torch.no_grad()
def test_swin_gives_the_outputs_of_its_stages_where_asked(swin, tmp_path):
    encoder = _build(tmp_path, "outputs")
    image = torch.randn(1, 3, 224, 224)
    maps = encoder(image)
    last = swin.layernorm(maps[-1].flatten(2).transpose(1, 2))
    torch.testing.assert_close(last, swin(image).last_hidden_state)
    assert [x.shape[1:] for x in maps] == [(12, 56, 56), (24, 28, 28), (48, 14, 14), (96, 7, 7)]


@torch.no_grad()
@pytest.mark.parametrize("states", ["inputs", "outputs"])
def test_maps_below_the_window_are_padded(swin, tmp_path, states):
    encoder = _build(tmp_path, states)
    image = torch.randn(2, 1, 96, 96)
    first = encoder(image)
    assert [x.shape[-1] for x in first] == [24, 12, 6, 3]
    encoder(torch.randn(1, 1, 64, 64))  # another side changes nothing
    assert all(torch.equal(a, b) for a, b in zip(first, encoder(image), strict=True))


def test_swins_last_stage_is_not_built_where_nothing_reads_it(option):
    with torch.device("meta"):
        used = option("image_encoder", "hf_swin_tiny", weights="random")
        all_of_it = option("image_encoder", "hf_swin_tiny", weights="random", states="outputs")
    size = [sum(p.numel() for p in e.parameters()) for e in (used, all_of_it)]
    assert size == [13_333_962, 27_517_818]  # and a final norm of 1,536 that neither has
    assert used.widths == all_of_it.widths == (96, 192, 384, 768)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["ConvNext", "ConvNextV2", "ResNet", "RegNet"])
def test_other_architectures_give_the_outputs_of_their_stages(transformers, tmp_path, kind):
    torch.manual_seed(0)
    sizes = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    config = getattr(transformers, f"{kind}Config")(**sizes, **_more(kind))
    theirs = _saved(getattr(transformers, f"{kind}Model")(config), tmp_path)
    image = torch.randn(1, 1, 64, 64)
    maps = _build(tmp_path, "outputs")(image)
    expected = theirs(image.expand(-1, 3, -1, -1), output_hidden_states=True).hidden_states[1:]
    for mine, other, side in zip(maps, expected, (16, 8, 4, 2), strict=True):
        torch.testing.assert_close(mine, other)
        assert mine.shape[-1] == side


def _more(kind):
    return {"RegNet": {"groups_width": 8}, "ResNet": {"embedding_size": 8}}.get(kind, {})


def test_random_weights_follow_the_seed(transformers):
    small = {"model_type": "swin", "embed_dim": 12, "num_heads": [1, 1, 1, 1]}
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        encoder = _build("random", **small)
        weights.append(encoder.levels[0].embeddings.patch_embeddings.projection.weight)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_what_does_not_fit_is_refused(transformers, swin, tmp_path):
    with pytest.raises(UserError, match=r"states=tokens is unknown: expected inputs or outputs"):
        _build(tmp_path, "tokens")
    with pytest.raises(UserError, match=r"inputs of a resnet's stages .*states=outputs"):
        _build("random", model_type="resnet")
    with pytest.raises(UserError, match=r"holds a vit: expected one of swin, .*image_encoder=timm"):
        _build("random", "outputs", model_type="vit")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "depths": [2, 2, 4, 2]}))
    with pytest.raises(UserError, match=r"tensors are missing or of another shape, first encoder"):
        _build(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"there is no config.json"):
        _build(tmp_path)
    with pytest.raises(UserError, match=r"does not exist. Set image_encoder.weights=/path/to/swin"):
        _build(tmp_path / "none")
