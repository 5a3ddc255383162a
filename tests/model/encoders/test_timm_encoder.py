import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.encoders.image import require_levels
from semimedref.model.encoders.timm_encoder import TimmEncoder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def timm():
    from semimedref.torchvision_shim import import_torchvision

    import_torchvision()
    import timm

    return timm


def _spread(net):
    """Norms and their statistics of ordinary size, so that no part is hidden behind another."""
    g = torch.Generator().manual_seed(0)
    for p in net.parameters():
        if p.dim() == 1:
            p.data = 0.5 + 0.3 * torch.randn(p.shape, generator=g)
    for name, b in net.named_buffers():
        if name.endswith("running_var"):
            b.copy_(0.5 + torch.rand(b.shape, generator=g))


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("resnet18", (64, 128, 256, 512)),  # module by module, five maps
        ("convnext_atto", (40, 80, 160, 320)),  # a stem of two parts
        ("mobilenetv3_small_100", (16, 24, 48, 576)),  # of EfficientNet's kin, with act1
        ("efficientnet_lite0", (24, 40, 112, 320)),  # and without
        ("mambaout_femto", (48, 96, 192, 288)),  # channels last
        ("hrnet_w18_small", (128, 256, 512, 1024)),  # as a whole only
    ],
)
def test_a_file_of_the_whole_network_gives_its_maps(timm, tmp_path, name, widths):
    torch.manual_seed(0)
    whole = timm.create_model(name).eval()
    _spread(whole)
    torch.save(whole.state_dict(), tmp_path / "net.pth")
    encoder = TimmEncoder(name=name, weights=str(tmp_path / "net.pth"), image_side=64).eval()
    assert encoder.widths == widths
    assert encoder.sliceable == (name != "hrnet_w18_small")
    image = torch.randn(2, 1, 64, 64)
    with torch.no_grad():
        maps = encoder(image)
        features = timm.create_model(name, features_only=True).eval()
        features.load_state_dict(_renamed(whole, features))
        theirs = features(image.expand(-1, 3, -1, -1))[-4:]
    for mine, other, side in zip(maps, theirs, (16, 8, 4, 2), strict=True):
        other = other if other.shape[-1] == side else other.permute(0, 3, 1, 2)
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)


def _renamed(whole, features):
    """timm's own renaming: a dot before the second part of a name becomes an underscore."""
    known = {key.replace(".", "_"): value for key, value in whole.state_dict().items()}
    return {key: known[key.replace(".", "_")] for key in features.state_dict()}


def test_levels_one_by_one_are_the_whole(timm):
    encoder = TimmEncoder(name="swin_tiny_patch4_window7_224", weights="random", image_side=96)
    x = encoder.eval().adapt(torch.randn(1, 1, 96, 96))
    with torch.no_grad():
        maps = encoder(x)
        for level, expected, side in zip(encoder.levels, maps, (24, 12, 6, 3), strict=True):
            x = level(x)
            assert torch.equal(x, expected) and x.shape[-1] == side


def test_it_learns_and_random_weights_follow_the_seed(timm):
    def build(seed):
        torch.manual_seed(seed)
        return TimmEncoder(name="resnet18", weights="random", image_side=64)

    one, two, other = build(0), build(0), build(1)
    assert one.training
    weight = one.levels[0][0].weight
    assert torch.equal(weight, two.levels[0][0].weight)
    assert not torch.equal(weight, other.levels[0][0].weight)
    sum(x.sum() for x in one(torch.randn(2, 1, 64, 64))).backward()
    assert all(p.grad is not None for p in one.parameters())


def test_trying_a_network_out_leaves_its_statistics_alone(timm):
    encoder = TimmEncoder(name="resnet18", weights="random", image_side=64)
    assert not any(b.any() for n, b in encoder.named_buffers() if n.endswith("running_mean"))


@pytest.mark.parametrize(
    ("name", "side", "message"),
    [
        ("vit_tiny_patch16_224", 96, r"maps at strides 16, 16, 16: expected 4, 8, 16, 32"),
        ("resnet34x", 96, r"no network of timm: expected a name .* for example"),
        ("hf_hub:timm/resnet18", 96, "is no network of timm"),
        ("maxvit_tiny_tf_224", 96, r"cannot take images of 96 px .*scale.image_side=224"),
        ("inception_v3", 96, r"give maps \(C, H, W\) of \[\(192, 20, 20\)"),
    ],
)
def test_networks_that_do_not_fit_are_refused(timm, name, side, message):
    with torch.device("meta"), pytest.raises(UserError, match=message):
        TimmEncoder(name=name, weights="random", image_side=side)


def test_a_file_of_another_network_is_refused(timm, tmp_path):
    torch.save(timm.create_model("resnet26").state_dict(), tmp_path / "net.pth")
    with pytest.raises(UserError, match=r"net.pth: \d+ of \d+ tensors are missing or of another"):
        TimmEncoder(name="resnet18", weights=str(tmp_path / "net.pth"), image_side=64)


def test_convnext_has_the_count_and_the_names_of_the_own_option(timm, option):
    with torch.device("meta"):
        encoder = TimmEncoder(name="convnext_tiny", weights="random", image_side=224)
        own = option("image_encoder", "convnext_tiny_1k", weights="random")
    assert sum(p.numel() for p in encoder.parameters()) == 27_818_592
    assert encoder.widths == own.widths


def test_networks_that_feed_back_into_the_trunk_refuse_what_has_no_levels(timm, tiny_model):
    with torch.device("meta"):
        whole = TimmEncoder(name="hrnet_w18_small", weights="random", image_side=96)
    with pytest.raises(UserError, match="MMI-UNet runs the image encoder level by level"):
        tiny_model(image_encoder=whole)
    with pytest.raises(UserError, match="LAVT runs"):
        require_levels(whole, "LAVT")
