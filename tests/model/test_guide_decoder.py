import pytest
import torch
from guided_twin import guide_decoder, published_weights
from made_up import randomize, size, words

from semimedref.config import compose
from semimedref.errors import UserError
from semimedref.model.guide_decoder import GuideDecoder
from semimedref.model.segmenter import Outputs

SIZES = {"kept_tokens": [24, 12, 9], "self_heads": 1, "cross_heads": 4, "loss": "native"}


@pytest.fixture(scope="module")
def published(option):
    """GuideDecoder at its published size, without data."""
    with torch.device("meta"):
        return GuideDecoder(
            option("image_encoder", "convnext_tiny", weights="random"),
            option("text_encoder", "cxr_bert", weights="random"),
            image_side=224,
            **SIZES,
        )


@pytest.fixture
def small(option):
    """A small GuideDecoder; keyword arguments change it."""

    def build(widths=(16, 24, 40, 64), **changes):
        settings = {"image_side": 96, **SIZES, **changes}
        trunk = option("image_encoder", "tiny", widths=list(widths))
        return GuideDecoder(trunk, option("text_encoder", "tiny", cache=False), **settings)

    return build


def test_published_size_has_the_published_parameter_counts(published):
    assert size(published.image_encoder) == 27_818_592
    assert size(published.text_encoder) == 108_891_648
    assert [size(block) for block in published.decoder] == [10_484_569, 2_772_397, 768_802]
    parts = [
        [size(part) for part in (g.self_attention, g.cross_attention, g.text)]
        for g in (block.guide for block in published.decoder)
    ]
    assert parts == [
        [2_362_368, 2_362_368, 591_192],
        [591_360, 591_360, 295_596],
        [148_224, 148_224, 147_873],
    ]
    ups = [block.up for block in published.decoder]
    assert [size(up.up) for up in ups] == [1_179_648, 294_912, 73_728]
    assert [size(up) - size(up.up) for up in ups] == [3_982_848, 996_096, 249_216]
    assert [size(published.head.conv), size(published.head.out)] == [332_160, 25]


def test_every_trainable_parameter_receives_a_gradient(published):
    image = torch.randn(2, 1, 224, 224, device="meta")
    logits = published(image, words(2, 768, device="meta"))
    assert logits.shape == (2, 1, 224, 224)
    logits.sum().backward()
    reached = sum(p.numel() for p in published.parameters() if p.grad is not None)
    assert reached == 42_176_545
    assert reached == sum(p.numel() for p in published.parameters() if p.requires_grad)


@pytest.mark.parametrize(("side", "tokens"), [(96, 24), (96, 25), (128, 24)])
@torch.no_grad()
def test_maps_and_logits_equal_those_of_a_functional_twin(small, side, tokens):
    torch.manual_seed(0)
    model = small(image_side=side).eval()
    randomize(model)
    image, text = torch.randn(2, 1, side, side), words(2, 16, tokens)
    maps = model.image_encoder(image)
    expected = guide_decoder(published_weights(model, "guide_decoder"), maps, text.tokens)
    *skips, x = maps
    found = []
    for block in model.decoder:
        guided = block.guide(x, text.tokens)
        x = block(x, skips.pop(), text.tokens)
        found += [guided, x]
    for ours, theirs in zip([*found, model(image, text)], expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        assert theirs.std() > 1e-2  # far above the tolerance
    torch.testing.assert_close(model.fused_features(image, text), expected[0], atol=1e-5, rtol=0)
    assert torch.equal(model.image_features(image), maps[-1])


def test_words_start_with_the_published_weight(small):
    assert [block.guide.scale.item() for block in small().decoder] == pytest.approx([1.421] * 3)


def test_a_position_token_is_not_mixed_into_the_words(small):
    mixing = small().decoder[1].guide.text
    text = torch.randn(2, 25, 16)
    other = text.clone()
    other[:, -1] += 1
    assert mixing(text).shape == (2, 13, 40)
    assert torch.equal(mixing(text)[:, :12], mixing(other)[:, :12])
    torch.testing.assert_close(mixing(text)[:, :12], mixing(text[:, :24]))
    assert not torch.equal(mixing(text)[:, 12], mixing(other)[:, 12])


@pytest.mark.parametrize("tokens", [23, 26])
def test_another_number_of_tokens_is_refused(small, tokens):
    model = small()
    with pytest.raises(UserError, match=rf"{tokens} tokens.*exactly 24.*text_encoder\.max_tokens"):
        model(torch.zeros(1, 1, 96, 96), words(1, 16, tokens))


def test_native_loss_is_dice_and_shared_the_given_one(small):
    outputs = Outputs(torch.zeros(1, 1, 2, 2))
    target = torch.tensor([[[[1.0, 1.0], [0.0, 0.0]]]])
    assert small().objective(outputs, target, None).item() == pytest.approx(0.5, abs=1e-5)
    shared = small(loss="shared").objective(outputs, target, lambda logits, t: t.sum())
    assert shared.item() == 2
    with pytest.raises(UserError, match=r"model\.loss=dice is unknown"):
        small(loss="dice")


@pytest.mark.parametrize(
    ("side", "nearest"),
    [(16, "image_side=32"), (100, "image_side=96 or scale.image_side=128")],
)
def test_impossible_side_is_refused_with_the_nearest_ones(small, side, nearest):
    with pytest.raises(UserError, match=f"cannot take images of {side} px.*{nearest}$"):
        small(image_side=side)
    with pytest.raises(UserError, match=nearest):
        small()(torch.zeros(1, 1, 96, side), words(1, 16))


@torch.no_grad()
def test_sides_beyond_the_published_table_of_positions_are_possible(small):
    model = small(widths=(8, 8, 8, 8), image_side=576).eval()  # 72 x 72 tokens at stride 8
    assert model(torch.randn(1, 1, 576, 576), words(1, 16)).shape == (1, 1, 576, 576)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cross_heads": 3}, r"model\.cross_heads=3: .*width 40"),
        ({"self_heads": 0}, r"model\.self_heads=0"),
        ({"kept_tokens": [24, 12]}, r"model\.kept_tokens=\[24, 12\]: expected 3"),
        ({"kept_tokens": [24, 12, 0]}, r"model\.kept_tokens=\[24, 12, 0\]"),
        ({"widths": (18, 24, 40, 64)}, r"first width 18 .*multiple of 4"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(option, changes, message):
    widths = list(changes.pop("widths", (16, 24, 40, 64)))
    trunk = option("image_encoder", "tiny", widths=widths, groups=1)
    with pytest.raises(UserError, match=message):
        GuideDecoder(trunk, option("text_encoder", "tiny"), image_side=96, **{**SIZES, **changes})


def test_the_paper_scale_has_the_published_settings():
    cfg = compose(["scale=paper", "model=guide_decoder", "dataset=qata_cov19"])
    scale = cfg.scale
    assert (scale.optimizer, scale.lr, scale.weight_decay) == ("adamw", 3e-4, 0.01)
    assert (scale.lr_shape, scale.cosine_epochs, scale.min_lr) == ("cosine", 200, 1e-6)
    assert (scale.lr_update, scale.batch_size, cfg.text_encoder.max_tokens) == ("epoch", 32, 24)
