import pytest
import torch
import torch.nn.functional as F
from made_up import randomize, size, words

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.losses import dice
from semimedref.model.rar import RARNet
from semimedref.model.segmenter import Outputs
from semimedref.model.tevid_recon import TeViDRecon

SIZES = {"heads": 4, "loss": "native"}
RELEASED = 37_887_434  # trainable parameters in the first stage
TRUNKS_LAST_NORM = 27_820_128 - 27_818_592
NORM = 2 * 768  # made beside the attention's own and never called
BLOCK = 2 * (9 + 1 + 2)  # likewise: two convolutions of one channel with BatchNorm


@pytest.fixture
def small(option):
    """A small network; keyword arguments change it."""

    def make(widths=(16, 24, 40, 64), kind=RARNet, **changes):
        settings = {"image_side": 96, **SIZES, **changes}
        trunk = option("image_encoder", "tiny", widths=list(widths), groups=1)
        return kind(trunk, option("text_encoder", "tiny", cache=False), **settings)

    return make


@pytest.fixture(scope="module")
def published():
    """The network at the paper's scale, without data."""
    weights = ["image_encoder.weights=random", "text_encoder.weights=random"]
    with torch.device("meta"):
        return build(compose(["scale=paper", "model=rar", *weights]), "model")


def test_it_has_the_released_size_without_parts_that_are_never_called(published):
    assert size(published.image_encoder) == 27_818_592
    assert size(published.fusion) == 2_955_097  # the weight of the words among them
    assert size(published.decoder) == 7_110_649
    trainable = sum(p.numel() for p in published.parameters() if p.requires_grad)
    assert trainable == 37_884_338 == RELEASED - TRUNKS_LAST_NORM - NORM - BLOCK


def test_features_of_images_and_sentences_at_full_size(published):
    outputs = published.outputs(
        torch.randn(2, 1, 224, 224, device="meta"), words(2, 768, device="meta")
    )
    assert outputs.logits.shape == (2, 1, 224, 224)
    assert outputs.extra["image"].shape == outputs.extra["text"].shape == (2, 768)


@torch.no_grad()
def test_it_is_the_target_half_of_the_network_with_two_decoders(small):
    """Whose every part equals a functional twin in test_tevid_recon.py."""
    torch.manual_seed(0)
    model, other = small().eval(), small(kind=TeViDRecon).eval()
    randomize(model)
    own = {k.replace("decoder.", "target."): v for k, v in model.state_dict().items()}
    missing, unknown = other.load_state_dict(own, strict=False)
    assert not unknown and all(key.startswith("background.") for key in missing)
    image, text = torch.randn(2, 1, 96, 96), words(2, 16)
    assert torch.equal(model(image, text), other(image, text))
    assert torch.equal(model.outputs(image, text).logits, model(image, text))
    fused = other.fused_features(image, text)
    assert torch.equal(model.fused_features(image, text), fused)
    assert torch.equal(model.image_features(image), other.image_features(image))


@torch.no_grad()
def test_features_are_means_of_the_fused_map_and_of_the_mixed_words(small):
    torch.manual_seed(0)
    model = small().eval()
    randomize(model)
    image, text = torch.randn(2, 1, 96, 96), words(2, 16)
    found = model.outputs(image, text).extra
    fused, part = model.fused_features(image, text), model.fusion.text
    for b in range(2):
        flat = fused[b].reshape(64, 9)
        torch.testing.assert_close(found["image"][b], flat.sum(1) / 9)
        mixed = part.mix.weight[..., 0] @ text.tokens[b] + part.mix.bias[:, None]
        projected = F.gelu(mixed) @ part.linear.weight.T + part.linear.bias
        leaky = torch.where(projected > 0, projected, 0.01 * projected)
        torch.testing.assert_close(found["text"][b], leaky.sum(0) / 24)


def test_the_loss_is_dice_or_the_shared_one(small):
    target = torch.tensor([[[[1.0, 1.0], [1.0, 0.0]]]])
    logits = torch.tensor([[[[2.0, -1.0], [0.5, 0.3]]]])
    assert small().objective(Outputs(logits), target, None) == dice(logits, target)
    shared = small(loss="shared").objective(Outputs(logits), target, lambda x, t: (x * t).sum())
    assert shared.item() == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, r"model\.heads=5: .*last width 64"),
        ({"widths": (18, 24, 40, 64)}, r"first width 18 .*multiple of 4"),
        ({"loss": "dice"}, r"model\.loss=dice is unknown"),
        ({"image_side": 100}, r"100 px.*scale\.image_side=96 or scale\.image_side=128"),
    ],
)
def test_settings_that_do_not_fit_are_refused(small, changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)
