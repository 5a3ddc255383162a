import lavt_twin as twin
import pytest
import torch
from torch import nn

from semimedref.errors import UserError
from semimedref.model.swin import Swin, shift_mask
from semimedref.torchvision_shim import import_torchvision

SMALL = {"width": 8, "depths": [2, 2, 6, 2], "heads": [1, 2, 4, 8], "drop_path": 0.3}


def _swin(**changes) -> Swin:
    return Swin(**{**SMALL, "window": 4, "weights": "random", **changes})


def _spread(model: nn.Module) -> None:
    """Weights of ordinary size: 0.02 would hide norms, tables and biases."""
    for p in model.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, mean=0.5, std=0.5)
        else:
            nn.init.normal_(p, std=max(0.3, p[0].numel() ** -0.5))


def _published_names(model: Swin) -> dict[str, torch.Tensor]:
    """The names of the first release, under ``backbone.``."""
    state = {}
    for key, value in model.state_dict().items():
        _, level, rest = key.split(".", 2)
        if rest.startswith("blocks."):
            key = f"backbone.layers.{level}.{rest}"
        elif level == "0":
            key = f"backbone.patch_embed.{rest.removeprefix('down.')}"
        else:
            key = f"backbone.layers.{int(level) - 1}.downsample.{rest.removeprefix('down.')}"
        state[key] = value
    return state


@pytest.mark.parametrize(
    ("name", "window", "count"),
    [("swin_tiny", 7, 27_517_818), ("swin_base", 7, 86_741_176), ("swin_base", 12, 86_876_536)],
)
def test_options_have_the_published_sizes(option, name, window, count):
    with torch.device("meta"):
        model = option("image_encoder", name, weights="random", window=window)
    assert sum(p.numel() for p in model.parameters()) == count
    first = 96 if name == "swin_tiny" else 128
    assert model.widths == (first, 2 * first, 4 * first, 8 * first)


@torch.no_grad()
@pytest.mark.parametrize(
    ("height", "width", "window"),
    [
        (128, 128, 4),  # whole windows; the last map is one window, and still shifted
        (112, 80, 5),  # padded windows, and odd maps 28 x 20, 14 x 10, 7 x 5, 4 x 3
    ],
)
def test_levels_equal_an_independent_functional_twin(height, width, window):
    torch.manual_seed(0)
    model = _swin(window=window).eval().double()
    _spread(model)
    s = _published_names(model)
    image = torch.randn(1, 3, height, width).double()
    x = twin.embed(image, s)
    for stage, found in enumerate(model(image)):
        if stage:
            x = twin.merge(x, s, f"backbone.layers.{stage - 1}.downsample")
        x = twin.blocks(x, s, stage, heads=SMALL["heads"][stage], window=window)
        torch.testing.assert_close(found, x.permute(0, 3, 1, 2), atol=1e-9, rtol=1e-9)


def test_a_map_as_large_as_a_window_is_shifted_by_half_of_it():
    mask = shift_mask(7, 7, window=7, device=torch.device("cpu"))
    assert mask.shape == (1, 49, 49)
    seen = (mask[0] == 0).sum(1).unique().tolist()
    assert seen == [3 * 3, 3 * 4, 4 * 4]  # the four parts that a shift by 3 makes of it
    assert mask.min() == -100


def test_drop_path_rises_to_its_rate_and_leaves_out_whole_images():
    model = _swin().train()
    rates = [block.drop_path for level in model.levels for block in level.blocks]
    assert rates == pytest.approx([0.3 * i / 11 for i in range(12)])
    torch.manual_seed(0)
    block = model.levels[3].blocks[1]
    update = block._kept(torch.ones(4000, 2, 2, 1)).flatten(1)
    assert (update == update[:, :1]).all()
    assert update.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert (update[:, 0] == 0).float().mean().item() == pytest.approx(0.3, abs=0.03)
    kept = model.eval().levels[3].blocks[1]._kept(torch.ones(4, 2, 2, 1))
    assert (kept == 1).all()


def test_it_starts_as_published():
    torch.manual_seed(0)
    model = _swin(width=32)
    block = model.levels[2].blocks[0]
    assert block.mlp.fc1.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert block.attn.relative_position_bias_table.std().item() == pytest.approx(0.02, rel=0.15)
    assert not block.attn.qkv.bias.any()
    assert (block.norm1.weight == 1).all() and block.norm1.eps == 1e-5


def _timm():
    import_torchvision()
    from timm.models.swin_transformer import SwinTransformer

    model = SwinTransformer(
        img_size=128,
        embed_dim=8,
        depths=(2, 2, 6, 2),
        num_heads=(1, 2, 4, 8),
        window_size=4,
        num_classes=3,
        always_partition=True,  # or the shift of the last stage is left out
    ).eval()
    _spread(model)
    return model


@torch.no_grad()
@pytest.mark.parametrize("names", ["timm", "first release"])
def test_weights_of_timm_and_of_the_first_release_are_read(tmp_path, names):
    torch.manual_seed(0)
    theirs = _timm()
    state = theirs.state_dict()
    if names == "first release":  # there, merging belongs to the stage before
        down = {f"layers.{i}.downsample.": f"layers.{i - 1}.downsample." for i in (1, 2, 3)}
        state = {down.get(key[:20], key[:20]) + key[20:]: value for key, value in state.items()}
        assert "layers.0.downsample.reduction.weight" in state
    torch.save({"model": state}, tmp_path / "swin.pth")
    ours = _swin(weights=str(tmp_path / "swin.pth")).eval()
    image = torch.randn(1, 3, 128, 128)
    expected = theirs.forward_intermediates(image, intermediates_only=True)
    for found, other in zip(ours(image), expected, strict=True):
        torch.testing.assert_close(found / other.std(), other / other.std(), atol=1e-4, rtol=1e-4)


def test_weights_of_another_window_are_refused(tmp_path):
    torch.save(_timm().state_dict(), tmp_path / "swin.pth")
    with pytest.raises(UserError, match=r"12 of 169 tensors .*relative_position_bias_table"):
        _swin(weights=str(tmp_path / "swin.pth"), window=7)


def test_impossible_sizes_are_refused():
    with pytest.raises(UserError, match=r"3 attention heads do not divide Swin's width 8 .*heads"):
        _swin(heads=[3, 6, 12, 24])
    with pytest.raises(UserError, match="one number for each of four stages"):
        _swin(depths=[2, 2, 2])


def test_every_parameter_receives_a_gradient():
    model = _swin(drop_path=0.0)
    sum(x.square().sum() for x in model(torch.randn(1, 1, 64, 64))).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
