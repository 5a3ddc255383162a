from itertools import chain

import pytest
import torch
from guided_twin import fmiseg, published_weights
from made_up import randomize, size, words
from torch import nn

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.fmiseg import FMISeg
from semimedref.model.frequency import low_and_high
from semimedref.model.losses import dice
from semimedref.model.segmenter import Outputs

SIZES = {
    "kept_tokens": [24, 12, 9],
    "self_heads": 1,
    "cross_heads": 4,
    "quantize": True,
    "loss": "native",
}


@pytest.fixture(scope="module")
def published(option):
    """FMISeg at its published size, without data."""
    with torch.device("meta"):
        return FMISeg(
            option("image_encoder", "convnext_tiny", weights="random"),
            option("image_encoder", "convnext_tiny", weights="random"),
            option("text_encoder", "cxr_bert", weights="random"),
            image_side=224,
            **SIZES,
        )


@pytest.fixture
def small(option):
    """A small FMISeg; keyword arguments change it."""

    def build(other=(16, 24, 40, 64), **changes):
        trunks = [
            option("image_encoder", "tiny", widths=list(widths))
            for widths in ((16, 24, 40, 64), other)
        ]
        text = option("text_encoder", "tiny", cache=False)
        return FMISeg(*trunks, text, **{"image_side": 96, **SIZES, **changes})

    return build


def test_published_size_has_the_published_parameter_counts(published):
    assert size(published.image_encoder) == size(published.image_encoder_2) == 27_818_592
    assert size(published.exchange) == 4_724_736
    for branch in (published.low, published.high):
        assert [size(block) for block in branch.decoder] == [17_595_481, 4_553_773, 1_216_546]
        assert [size(branch.head.conv), size(branch.head.out)] == [332_160, 25]
    gate = published.low.decoder[0].guide
    assert sum(map(size, (gate.self_attention, gate.before_self, gate.after_self))) == 2_365_440
    assert size(gate.visual_attention) == size(gate.word_attention) == 2_362_368
    assert size(gate.text) == 591_192
    assert size(gate.visual_ffn) == size(gate.word_ffn) == 2_361_600
    assert size(gate.agreement) == 19_200


def test_every_trainable_parameter_receives_a_gradient(published):
    image = torch.randn(2, 1, 224, 224, device="meta")
    outputs = published.outputs(image, words(2, 768, device="meta"))
    assert outputs.logits.shape == outputs.extra["high"].shape == (2, 1, 224, 224)
    (outputs.logits.sum() + outputs.extra["high"].sum()).backward()
    reached = sum(p.numel() for p in published.parameters() if p.grad is not None)
    assert reached == 107_757_890
    assert reached == sum(p.numel() for p in published.parameters() if p.requires_grad)


def _maps_of(branch, maps, tokens):
    *skips, x = maps
    found = []
    for block in branch.decoder:
        guided = block.guide(x, tokens)
        x = block(x, skips.pop(), tokens)
        found += [guided, x]
    return [*found, branch.head(x)]


@pytest.mark.parametrize(("side", "tokens"), [(96, 24), (96, 25), (128, 24)])
@torch.no_grad()
def test_maps_and_logits_equal_those_of_a_functional_twin(small, side, tokens):
    torch.manual_seed(0)
    model = small(image_side=side).eval()
    randomize(model)
    image, text = torch.randn(2, 1, side, side), words(2, 16, tokens)
    low, high = low_and_high(image, quantize=True)
    a, b = model.image_encoder(low), model.image_encoder_2(high)
    expected = fmiseg(published_weights(model, "fmiseg"), a, b, text.tokens)
    deepest = model.exchange(a[-1], b[-1])
    found = [
        _maps_of(branch, [*maps[:-1], x], text.tokens)
        for branch, maps, x in zip((model.low, model.high), (a, b), deepest, strict=True)
    ]
    for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        assert theirs.std() > 1e-2  # far above the tolerance
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(model(image, text), expected[0][-1], **close)
    outputs = model.outputs(image, text)
    torch.testing.assert_close(outputs.logits, expected[0][-1], **close)
    torch.testing.assert_close(outputs.extra["high"], expected[1][-1], **close)
    torch.testing.assert_close(model.fused_features(image, text), expected[0][0], **close)
    assert torch.equal(model.image_features(image), a[-1])


@torch.no_grad()
def test_the_prediction_needs_the_high_trunk_but_not_the_high_decoder(small):
    torch.manual_seed(0)
    model = small().eval()
    randomize(model)
    image, text = torch.randn(1, 1, 96, 96), words(1, 16)
    before = model(image, text)
    for p in model.high.parameters():
        p.zero_()
    assert torch.equal(model(image, text), before)
    for p in model.image_encoder_2.parameters():
        p.mul_(0.5)
    assert not torch.equal(model(image, text), before)


def test_the_map_is_multiplied_by_the_gate_and_nothing_else_is_left(small):
    gate = small().low.decoder[0].guide
    nn.init.zeros_(gate.scale)
    found = gate(torch.randn(2, 64, 3, 3), torch.randn(2, 24, 16))
    assert not found.any()
    assert [b.guide.scale.item() for b in small().high.decoder] == [1, 1, 1]


def test_both_branches_have_a_loss(small):
    target = (torch.rand(2, 1, 8, 8) > 0.5).float()
    low, high = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    outputs = Outputs(low, {"high": high})
    native = small().objective(outputs, target, None)
    torch.testing.assert_close(native, dice(low, target) + dice(high, target))
    shared = small(loss="shared").objective(outputs, target, lambda x, t: (x * t).sum())
    torch.testing.assert_close(shared, ((low + high) * target).sum())


def test_the_option_makes_two_trunks_and_one_text_encoder():
    cfg = compose(["dataset=phantom_tiny", "scale=smoke", "model=fmiseg"])
    torch.manual_seed(0)
    model = build(cfg, "model")
    first, second = model.image_encoder.state_dict(), model.image_encoder_2.state_dict()
    assert any(not torch.equal(first[key], second[key]) for key in first)
    assert model.text_encoder.frozen and model.quantize and model.loss == "native"


def test_trunks_of_different_widths_are_refused(small):
    with pytest.raises(UserError, match=r"image_encoder_2 has the widths \[16, 24, 40, 32\]"):
        small(other=(16, 24, 40, 32))


def test_impossible_sides_and_heads_are_refused(small):
    with pytest.raises(UserError, match=r"FMISeg .*100 px.*image_side=96 or scale\.image_side=128"):
        small(image_side=100)
    with pytest.raises(UserError, match=r"model\.cross_heads=3"):
        small(cross_heads=3)


def test_the_paper_scale_has_the_published_settings():
    cfg = compose(["scale=paper", "model=fmiseg", "dataset=qata_cov19"])
    scale = cfg.scale
    assert (scale.optimizer, scale.lr, scale.weight_decay) == ("adamw", 3e-4, 0.01)
    assert (scale.lr_shape, scale.cosine_epochs, scale.min_lr) == ("cosine", 200, 1e-6)
    assert (scale.lr_update, scale.batch_size, cfg.text_encoder.max_tokens) == ("epoch", 32, 24)
