import math

import pytest
import torch
import torch.nn.functional as F
from made_up import randomize, size, words

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.segmenter import Outputs
from semimedref.model.tevid_recon import TeViDRecon

SIZES = {"heads": 4, "loss": "native"}
RAR = 37_887_434  # trainable parameters of the sibling with one decoder
RAR_UNUSED = 1_536 + 1_536 + 24  # the trunk's last norm, a norm and a block that it never calls


@pytest.fixture
def small(option):
    """A small network; keyword arguments change it."""

    def make(widths=(16, 24, 40, 64), groups=4, **changes):
        settings = {"image_side": 96, **SIZES, **changes}
        trunk = option("image_encoder", "tiny", widths=list(widths), groups=groups)
        return TeViDRecon(trunk, option("text_encoder", "tiny", cache=False), **settings)

    return make


@pytest.fixture(scope="module")
def published():
    """The network at the paper's scale, without data."""
    weights = ["image_encoder.weights=random", "text_encoder.weights=random"]
    with torch.device("meta"):
        return build(compose(["scale=paper", "model=tevid_recon", *weights]), "model")


def test_it_is_the_sibling_with_a_second_decoder(published):
    assert size(published.image_encoder) == 27_818_592
    assert size(published.fusion.text) == 600 + 590_592
    assert size(published.fusion) == 2_955_097
    assert size(published.target) == size(published.background) == 7_110_649
    trainable = sum(p.numel() for p in published.parameters() if p.requires_grad)
    assert trainable == 44_994_987 == RAR - RAR_UNUSED + 7_110_649


def test_every_trainable_parameter_receives_a_gradient(published):
    outputs = published.outputs(
        torch.randn(2, 1, 224, 224, device="meta"), words(2, 768, device="meta")
    )
    (outputs.logits.sum() + outputs.extra["background"].sum()).backward()
    assert outputs.extra["background"].shape == (2, 1, 224, 224)
    assert all(p.grad is not None for p in published.parameters() if p.requires_grad)


def _code(n, d):
    table = torch.empty(n, d, dtype=torch.float64)
    for i in range(0, d, 2):
        angle = torch.arange(n, dtype=torch.float64) / 10000.0 ** (i / d)
        table[:, i], table[:, i + 1] = angle.sin(), angle.cos()
    return table.float()


def _fusion(visual, text, m):
    """A 25th token skips the mixing of positions."""
    mix, linear = m.text.mix, m.text.linear
    t = torch.einsum("kl,bld->bkd", mix.weight[..., 0], text[:, :24]) + mix.bias[:, None]
    t = torch.cat([t, text[:, 24:]], 1)
    t = F.linear(0.5 * t * (1 + torch.erf(t / math.sqrt(2))), linear.weight, linear.bias)
    t = torch.where(t > 0, t, 0.01 * t)
    b, c, height, width = visual.shape
    q = visual.reshape(b, c, height * width).permute(0, 2, 1)
    q, k = q + _code(*q.shape[1:]), t + _code(*t.shape[1:])
    a, _ = F.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (q, k, t)), c, 4,
        m.attention.in_proj_weight, m.attention.in_proj_bias, None, None, False, 0.0,
        m.attention.out_proj.weight, m.attention.out_proj.bias, training=False,
    )  # fmt: skip
    a = F.layer_norm(a.transpose(0, 1), (c,), m.norm.weight, m.norm.bias, 1e-5)
    return visual + m.scale * a.permute(0, 2, 1).reshape(b, c, height, width)


def _conv(x, conv, n):
    y = F.conv2d(x, conv.weight, conv.bias, padding=1)
    y = (y - n.running_mean[:, None, None]) / (n.running_var[:, None, None] + 1e-5).sqrt()
    return F.relu(y * n.weight[:, None, None] + n.bias[:, None, None])


def _decode(maps, m):
    f1, f2, f3, x = maps
    for block, skip in zip(m.blocks, (f3, f2, f1), strict=True):
        up = F.conv_transpose2d(x, block.up.weight, block.up.bias, stride=2)
        x = _conv(torch.cat([up, skip], 1), block.conv1, block.norm1)
        x = _conv(x, block.conv2, block.norm2)
    y = F.pixel_shuffle(F.conv2d(x, m.head.conv.weight, m.head.conv.bias, padding=1), 4)
    y = F.avg_pool2d(F.pad(y, (3, 0, 3, 0)), 4, stride=1)
    return F.conv2d(y, m.head.out.weight, m.head.out.bias)


@pytest.mark.parametrize(("side", "tokens"), [(96, 24), (96, 25), (128, 24)])
@torch.no_grad()
def test_maps_and_logits_equal_those_of_a_functional_twin(small, side, tokens):
    torch.manual_seed(0)
    model = small(image_side=side).eval()
    randomize(model)
    image, text = torch.randn(2, 1, side, side), words(2, 16, tokens)
    *maps, last = model.image_encoder(image)
    fused = _fusion(last, text.tokens, model.fusion)
    torch.testing.assert_close(model.fused_features(image, text), fused, atol=1e-5, rtol=1e-5)
    assert torch.equal(model.image_features(image), last)
    outputs = model.outputs(image, text)
    pairs = [(outputs.logits, model.target), (outputs.extra["background"], model.background)]
    for found, decoder in pairs:
        expected = _decode([*maps, fused], decoder)
        assert expected.std() > 0.05
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(model(image, text), outputs.logits)
    assert not torch.allclose(outputs.logits, outputs.extra["background"])


def test_words_start_with_the_siblings_weight(small):
    assert small().fusion.scale.item() == pytest.approx(1.421)


def test_the_background_decoder_learns_what_is_not_the_target(small):
    target = torch.tensor([[[[1.0, 1.0], [1.0, 0.0]]]])
    right = 80 * (2 * target - 1)
    model = small()
    assert model.objective(Outputs(right, {"background": -right}), target, None) < 1e-4
    swapped = model.objective(Outputs(right, {"background": right}), target, None)
    assert swapped.item() == pytest.approx(1, abs=1e-4)
    shared = small(loss="shared").objective(
        Outputs(right, {"background": 2 * right}), target, lambda logits, t: (logits * t).sum()
    )
    assert shared.item() == pytest.approx(3 * 80 - 160)


@pytest.mark.parametrize("tokens", [23, 26])
def test_another_number_of_tokens_is_refused(small, tokens):
    with pytest.raises(UserError, match=rf"{tokens} tokens.*exactly 24"):
        small()(torch.zeros(1, 1, 96, 96), words(1, 16, tokens))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, r"model\.heads=5: .*last width 64"),
        ({"heads": 0}, r"model\.heads=0"),
        ({"widths": (18, 24, 40, 64), "groups": 1}, r"first width 18 .*multiple of 4"),
        ({"loss": "dice"}, r"model\.loss=dice is unknown"),
        ({"image_side": 100}, r"100 px.*scale\.image_side=96 or scale\.image_side=128"),
    ],
)
def test_settings_that_do_not_fit_are_refused(small, changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)
