import pytest
import torch
import torch.nn.functional as F
from made_up import randomize, size, words

from semimedref.errors import UserError
from semimedref.model.mmi_unet import MMIUNet
from semimedref.model.segmenter import TextFeatures

TEXTS = ["Bilateral pulmonary infection, two infected areas, upper left lung", "lower right lung"]


@pytest.fixture(scope="module")
def published(option):
    """MMI-UNet at its published size, without data."""
    with torch.device("meta"):
        return MMIUNet(
            option("image_encoder", "convnext_tiny", weights="random"),
            option("text_encoder", "cxr_bert", weights="random"),
            image_side=224,
            heads=8,
            ffn_width=128,
            dropout=0.1,
            position_code=False,
            mask_padding=False,
        )


def test_published_size_has_the_published_parameter_counts(published):
    assert size(published.image_encoder) == 27_818_592
    assert size(published.text_encoder) == 108_891_648
    last_text_branch = 4_926_848 + 590_592  # interactor and linear, without any use
    assert [size(itm) for itm in published.fusion] == [
        422_176,
        1_285_696,
        4_339_840,
        15_756_544 - last_text_branch,
    ]
    assert [size(block) for block in published.decoder] == [3_835_392, 959_232, 240_000]
    assert [size(published.head.conv), size(published.head.out)] == [332_160, 25]
    interactors = [size(itm.visual) for itm in published.fusion]
    assert interactors == [99_872, 347_072, 1_283_840, 4_926_848]


def test_every_trainable_parameter_receives_a_gradient(published):
    image = torch.randn(2, 1, 224, 224, device="meta")
    logits = published(image, words(2, 768, device="meta"))
    assert logits.shape == (2, 1, 224, 224)
    logits.sum().backward()
    reached = sum(p.numel() for p in published.parameters() if p.grad is not None)
    assert reached == 49_472_217
    assert reached == sum(p.numel() for p in published.parameters() if p.requires_grad)


def _norm(x, module):
    return F.layer_norm(x, x.shape[-1:], module.weight, module.bias, 1e-5)


def _linear(x, module):
    return F.linear(x, module.weight, module.bias)


def _attend(x, memory, a):
    """One head after the other, softmax written out."""
    c = x.shape[-1]
    parts = zip(a.in_proj_weight.split(c), a.in_proj_bias.split(c), strict=True)
    q, k, v = (F.linear(y, w, b) for y, (w, b) in zip((x, memory, memory), parts, strict=True))
    d = c // a.heads
    out = []
    for h in range(a.heads):
        s = slice(h * d, (h + 1) * d)
        out.append((q[..., s] @ k[..., s].mT / d**0.5).softmax(-1) @ v[..., s])
    return _linear(torch.cat(out, -1), a.out_proj)


def _interact(x, memory, m):
    x = _norm(x + _attend(x, x, m.self_attention), m.norm1)
    x = _norm(x + _attend(x, memory, m.cross_attention), m.norm2)
    return _norm(x + _linear(F.relu(_linear(x, m.ffn[0])), m.ffn[3]), m.norm3)


def _itm(x, text, m):
    b, c, height, width = x.shape
    h, w = height // 2, width // 2
    v = F.conv2d(x, m.zoom_in.weight, stride=2).reshape(b, c, h * w).permute(0, 2, 1)
    v = _norm(v, m.norm_visual)
    t = _norm(_linear(text, m.text_in), m.norm_text)
    update = _interact(v, t, m.visual).permute(0, 2, 1).reshape(b, c, h, w)
    update = F.conv_transpose2d(update, m.zoom_out.weight, stride=2)
    update = F.pad(update, (0, width - 2 * w, 0, height - 2 * h))  # zeros where it was not seen
    if m.text is None:
        return x + update, None
    return x + update, text + _linear(_interact(t, v, m.text), m.text_out)


def _up(x, skip, m):
    up = F.conv_transpose2d(x, m.up.weight, m.up.bias, stride=2)
    y = F.conv2d(torch.cat([up, skip], 1), m.conv.weight, m.conv.bias, padding=1)
    n = m.norm
    y = (y - n.running_mean[:, None, None]) / (n.running_var[:, None, None] + 1e-5).sqrt()
    return F.relu(y * n.weight[:, None, None] + n.bias[:, None, None])


def _head(x, m):
    y = F.pixel_shuffle(F.conv2d(x, m.conv.weight, m.conv.bias, padding=1), 4)
    y = F.avg_pool2d(F.pad(y, (3, 0, 3, 0)), 4, stride=1)
    return F.conv2d(y, m.out.weight, m.out.bias)


def _mmi_unet(image, T, m):
    """The published data flow, step by step."""
    level, fuse = m.image_encoder.levels, m.fusion
    x = level[0](image)
    v1, t1 = _itm(x, T, fuse[0])
    x = level[1](v1 + x)
    v2, t2 = _itm(x, T + t1, fuse[1])
    x = level[2](v2 + x)
    v3, t3 = _itm(x, T + t2, fuse[2])
    x = level[3](v3 + x)
    v4, _ = _itm(x, T + t3, fuse[3])
    d = _up(v4, v3, m.decoder[0])
    d = _up(d, v2, m.decoder[1])
    d = _up(d, v1, m.decoder[2])
    return _head(d, m.head)


@pytest.mark.parametrize("side", [96, 160])
def test_output_equals_an_independent_functional_twin(tiny_model, option, side):
    torch.manual_seed(0)
    trunk = option("image_encoder", "tiny", widths=[16, 24, 40, 64])
    model = tiny_model(image_encoder=trunk, image_side=side).eval()
    randomize(model)
    image, text = torch.randn(2, 1, side, side), words(2, 16)
    with torch.no_grad():
        expected = _mmi_unet(image, text.tokens, model)
        torch.testing.assert_close(model(image, text), expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1


def test_last_row_and_column_of_the_last_level_get_no_update(tiny_model):
    itm = tiny_model().fusion[-1].eval()
    x = torch.randn(1, 16, 7, 7)
    fused, text = itm(x, torch.randn(1, 24, 16), None)
    assert text is None
    changed = (fused != x).any(1)[0]
    assert changed[:6, :6].all() and not changed[6].any() and not changed[:, 6].any()


def test_initialization_follows_the_published_one(published, option):
    torch.manual_seed(0)
    model = MMIUNet(
        option("image_encoder", "small", widths=[96, 96, 96, 96]),
        option("text_encoder", "tiny", width=96),
        image_side=96,
        heads=8,
        ffn_width=128,
        dropout=0.1,
        position_code=False,
        mask_padding=False,
    )
    itm = model.fusion[0]
    for linear in (itm.text_in, itm.visual.ffn[0], itm.visual.self_attention.out_proj):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not linear.bias.any()
    packed = itm.visual.cross_attention
    bound = (6 / (96 + 3 * 96)) ** 0.5  # xavier-uniform of the packed (3C, C) matrix
    assert bound * 0.99 < packed.in_proj_weight.abs().max() <= bound
    assert not packed.in_proj_bias.any()
    for zoom in (itm.zoom_in, itm.zoom_out):
        assert zoom.weight.std().item() == pytest.approx(0.0722, rel=0.02)


@pytest.mark.parametrize(
    ("side", "nearest"),
    [
        (32, "image_side=96"),
        (64, "image_side=96"),
        (112, "image_side=96 or scale.image_side=160"),
        (128, "image_side=96 or scale.image_side=160"),
        (225, "image_side=224 or scale.image_side=288"),
        (256, "image_side=224 or scale.image_side=288"),
    ],
)
def test_impossible_side_is_refused_with_the_nearest_ones(tiny_model, side, nearest):
    with pytest.raises(UserError, match=f"cannot take images of {side} px.*{nearest}$"):
        tiny_model(image_side=side)
    with pytest.raises(UserError, match=nearest):
        tiny_model()(torch.zeros(1, 1, side, 96), words(1, 16))


@pytest.mark.parametrize("side", [96, 160, 224, 288])
def test_odd_multiples_of_32_are_accepted(tiny_model, side):
    tiny_model(image_side=side)


def test_heads_that_do_not_divide_a_width_are_refused(tiny_model):
    with pytest.raises(
        UserError, match=r"5 attention heads do not divide .* width 8 .*fusion_heads"
    ):
        tiny_model(heads=5)


def _changes_with_padding(model) -> bool:
    randomize(model.eval())
    text = words(1, 16)
    other = text.tokens.clone()
    other[:, 15:] = torch.randn(1, 9, 16)
    image = torch.randn(1, 1, 96, 96)
    same = TextFeatures(tokens=other, mask=text.mask, pooled=text.pooled)
    return not torch.equal(model(image, text), model(image, same))


def test_padding_takes_part_in_the_published_net_and_not_when_masked(tiny_model):
    assert _changes_with_padding(tiny_model())
    assert not _changes_with_padding(tiny_model(mask_padding=True))


def test_position_code_tells_equal_tokens_apart(tiny_model):
    for code in (False, True):
        itm = tiny_model(position_code=code).fusion[0].eval()
        x = torch.ones(1, 8, 8, 8)
        update = itm(x, torch.randn(1, 24, 16), None)[0] - x
        coarse = update[..., ::2, ::2]  # one value for each visual token
        assert (coarse.std(dim=(2, 3)).max() > 1e-3) == code


def test_image_features_know_no_text(tiny_model):
    model = tiny_model(image_side=160)
    features = model.image_features(torch.randn(2, 1, 160, 160))
    assert features.shape == (2, 16, 5, 5)


def test_gradient_flows_through_a_trainable_text_encoder(tiny_model, option):
    model = tiny_model(text_encoder=option("text_encoder", "tiny", frozen=False, cache=False))
    text = model.encode_text(model.prepare_text(TEXTS), dropout=True)
    model(torch.randn(2, 1, 96, 96), text).sum().backward()
    assert all(p.grad is not None for p in model.text_encoder.layers.parameters())


def test_frozen_text_encoder_receives_no_gradient(tiny_model, option):
    model = tiny_model(text_encoder=option("text_encoder", "tiny", cache=False))
    text = model.encode_text(model.prepare_text(TEXTS))
    assert not text.tokens.requires_grad
    model(torch.randn(2, 1, 96, 96), text).sum().backward()
    assert all(p.grad is None for p in model.text_encoder.parameters())
    others = [p for n, p in model.named_parameters() if not n.startswith("text_encoder")]
    assert all(p.grad is not None for p in others)


def test_a_text_free_pass_leaves_the_running_statistics_alone(option):
    encoder = option("image_encoder", "efficientnet_lite0").train()
    before = {k: v.clone() for k, v in encoder.state_dict().items() if "running" in k}
    image = torch.randn(2, 1, 96, 96)
    with encoder.unremembered():
        inside = encoder(image)[-1]
    after = encoder.state_dict()
    assert before and all(torch.equal(after[k], v) for k, v in before.items())
    outside = encoder(image)[-1]  # normalized by the batch either way
    torch.testing.assert_close(inside, outside)
    assert any(not torch.equal(encoder.state_dict()[k], v) for k, v in before.items())
