import math

import pytest
import torch
import torch.nn.functional as F
from guided_twin import published_weights
from made_up import randomize, size, words

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.published.catalog import published_shapes, source_of
from semimedref.model.segmenter import Outputs
from semimedref.model.textmoe_seg import TextMoESeg, similarity_of_experts

SIZES = {
    "heads": 2,
    "dataset": "qata_cov19",
    "indicators": {"qata_cov19": 0, "mosmed_plus": 1},
    "difference_weight": 0.1,
    "loss": "native",
}


@pytest.fixture(scope="module")
def published():
    """TextMoE-Seg at its published size, without data."""
    with torch.device("meta"):
        return build(compose([*source_of("textmoe_seg").overrides]), "model")


@pytest.fixture
def small(option):
    """A small TextMoE-Seg; keyword arguments change it."""

    def make(widths=(16, 24, 40, 64), groups=4, **changes):
        settings = {"image_side": 96, **SIZES, **changes}
        trunk = option("image_encoder", "tiny", widths=list(widths), groups=groups)
        return TextMoESeg(trunk, option("text_encoder", "tiny", cache=False), **settings)

    return make


def test_published_size_has_the_published_parameter_counts(published):
    assert size(published.image_encoder) == 27_818_592
    assert size(published.text_encoder) == 108_891_648
    coarse = published.decoder[0]
    assert [size(conv.text) for conv in (coarse.conv1, coarse.conv2)] == [296_064, 296_064]
    assert [size(conv.gate) for conv in (coarse.conv1, coarse.conv2)] == [1_542, 774]
    experts = [*coarse.conv1.experts, *coarse.conv2.experts]
    assert [size(expert) for expert in experts] == [3_246_720] * 2 + [1_919_616] * 2
    assert [size(block) for block in published.decoder] == [12_108_686, 3_178_958, 870_638]
    assert [size(published.head.conv), size(published.head.out)] == [332_160, 75]


def test_with_the_unused_norm_all_published_parameters_are_there(published):
    ours = sum(p.numel() for p in published.parameters() if p.requires_grad)
    unused = 2 * 768  # the norm before ConvNeXt's classifier
    assert ours + unused == 44_310_645
    counted = {
        key: math.prod(shape)
        for key, shape in published_shapes("textmoe_seg").items()
        if not key.startswith("text_encoder.")
        and not key.endswith((".pe", "running_mean", "running_var", "num_batches_tracked"))
    }
    assert sum(counted.values()) == 44_310_645
    assert sum(n for key, n in counted.items() if key.startswith("encoder.model.l")) == unused


def test_every_trainable_parameter_receives_a_gradient(published):
    image = torch.randn(2, 1, 224, 224, device="meta")
    outputs = published.outputs(image, words(2, 768, device="meta"))
    assert outputs.logits.shape == (2, 1, 224, 224)
    assert outputs.extra["channels"].shape == (2, 3, 224, 224)
    outputs.logits.sum().backward()
    reached = sum(p.numel() for p in published.parameters() if p.grad is not None)
    assert reached == 44_310_645 - 1_536


def _code(n, d):
    table = torch.empty(n, d, dtype=torch.float64)
    for i in range(0, d, 2):
        angle = torch.arange(n, dtype=torch.float64) / 10000.0 ** (i / d)
        table[:, i], table[:, i + 1] = angle.sin(), angle.cos()
    return table.float()


def _norm(w, key, x):
    spread = x.var(-1, unbiased=False, keepdim=True)
    x = (x - x.mean(-1, keepdim=True)) / (spread + 1e-5).sqrt()
    return x * w[f"{key}.weight"] + w[f"{key}.bias"]


def _moe(w, key, x, text, ids):
    seen = torch.cat([x.flatten(2).mean(-1), F.one_hot(ids, 2)], 1)
    shares = (seen @ w[f"{key}.gate.weight"].T + w[f"{key}.gate.bias"]).softmax(1)
    t = text @ w[f"{key}.text_project.0.weight"].T + w[f"{key}.text_project.0.bias"]
    t = _norm(w, f"{key}.text_project.2", 0.5 * t * (1 + torch.erf(t / 2**0.5)))
    t = torch.where(t > 0, t, 0.1 * t) + _code(*t.shape[1:])
    maps = []
    for e in range(2):
        own = f"{key}.experts.{e}"
        v = F.conv2d(x, w[f"{own}.conv.weight"], w[f"{own}.conv.bias"], padding=1)
        b, c, height, width = v.shape
        s = v.reshape(b, c, height * width).permute(0, 2, 1)
        s = s + _code(*s.shape[1:])
        a, _ = F.multi_head_attention_forward(
            _norm(w, f"{own}.norm", s).transpose(0, 1), t.transpose(0, 1), t.transpose(0, 1), c, 2,
            w[f"{own}.cross_attn.in_proj_weight"], w[f"{own}.cross_attn.in_proj_bias"],
            None, None, False, 0.0, w[f"{own}.cross_attn.out_proj.weight"],
            w[f"{own}.cross_attn.out_proj.bias"], training=False,
        )  # fmt: skip
        s = s + w[f"{key}.scale"] * a.transpose(0, 1)
        maps.append(s.permute(0, 2, 1).reshape(b, c, height, width))
    mixed = sum(shares[:, e, None, None, None] * maps[e] for e in range(2))
    return mixed, torch.stack(maps, 1)


def _batch_norm(w, key, x):
    mean, var, weight, bias = (
        w[f"{key}.{part}"][:, None, None]
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return F.relu((x - mean) / (var + 1e-5).sqrt() * weight + bias)


def _twin(w, maps, text, ids):
    """The specification's data flow: after each block, then logits; and all pairs of experts."""
    f1, f2, f3, x = maps
    found, pairs = [], []
    for key, skip in (("block1", f3), ("block2", f2), ("block3", f1)):
        up = F.conv_transpose2d(x, w[f"{key}.up.weight"], w[f"{key}.up.bias"], stride=2)
        x, pair1 = _moe(w, f"{key}.moe_conv1", torch.cat([up, skip], 1), text, ids)
        x, pair2 = _moe(w, f"{key}.moe_conv2", _batch_norm(w, f"{key}.bn1", x), text, ids)
        x = _batch_norm(w, f"{key}.bn2", x)
        found.append(x)
        pairs += [pair1, pair2]
    y = F.conv2d(x, w["decoder1.conv_block.weight"], w["decoder1.conv_block.bias"], padding=1)
    y = F.avg_pool2d(F.pad(F.pixel_shuffle(y, 4), (3, 0, 3, 0)), 4, stride=1)
    y = F.conv2d(y, w["out.conv.conv.weight"], w["out.conv.conv.bias"])
    return [*found, y], pairs


@pytest.mark.parametrize(("side", "tokens"), [(96, 24), (96, 25), (64, 24)])
@torch.no_grad()
def test_maps_and_logits_equal_those_of_a_functional_twin(small, side, tokens):
    torch.manual_seed(0)
    model = small(image_side=side, dataset="mosmed_plus").eval()
    randomize(model)
    image, text = torch.randn(2, 1, side, side), words(2, 16, tokens)
    weights = published_weights(model, "textmoe_seg")
    maps = model.image_encoder(image)
    found = []
    for block in model.decoder:
        block.register_forward_hook(lambda _, __, result: found.append(result))
    for ids in (torch.tensor([0, 1]), torch.tensor([1, 1])):
        expected, pairs = _twin(weights, maps, text.tokens, ids)
        found.clear()
        channels = model.channels(image, text, ids)
        for ours, theirs in zip([*(x for x, _ in found), channels], expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        for ours, theirs in zip([p for _, pair in found for p in pair], pairs, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert expected[-1].std() > 0.05
    mean = expected[-1].mean(1, keepdim=True)  # ids 1 is that of this network
    torch.testing.assert_close(model(image, text), mean, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.fused_features(image, text), expected[0], atol=1e-5, rtol=1e-5)
    assert torch.equal(model.image_features(image), maps[-1])
    cosines = torch.stack([F.cosine_similarity(p[:, 0], p[:, 1], dim=-1) for p in pairs[:2]])
    first = torch.stack([similarity_of_experts(p) for p in pairs[:2]])
    torch.testing.assert_close(first, cosines.mean((2, 3)))


def test_words_start_with_the_published_weight(small):
    convs = [conv for block in small().decoder for conv in (block.conv1, block.conv2)]
    assert [conv.scale.item() for conv in convs] == pytest.approx([1.421] * 6)


def test_similarity_is_that_of_rows():
    pair = torch.zeros(1, 2, 1, 2, 2)
    pair[0, 0, 0] = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    pair[0, 1, 0] = torch.tensor([[0.0, 3.0], [2.0, 2.0]])  # at right angles, and parallel
    assert similarity_of_experts(pair).tolist() == pytest.approx([0.5])


@torch.no_grad()
def test_outputs_hold_the_mean_similarity_of_six_pairs_for_each_image(small):
    torch.manual_seed(0)
    model = small().eval()
    image, text = torch.randn(2, 1, 96, 96), words(2, 16)
    outputs = model.outputs(image, text)
    _, pairs = _twin(
        published_weights(model, "textmoe_seg"), model.image_encoder(image), text.tokens,
        torch.tensor([0, 0]),
    )  # fmt: skip
    expected = (
        sum(
            (p[:, 0] * p[:, 1])
            .sum(-1)
            .div(p[:, 0].norm(dim=-1) * p[:, 1].norm(dim=-1))
            .mean((1, 2))
            for p in pairs
        )
        / 6
    )
    assert len(pairs) == 6
    torch.testing.assert_close(outputs.extra["similarity"], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(outputs.logits, outputs.extra["channels"].mean(1, keepdim=True))


@pytest.mark.parametrize(
    ("dataset", "indicator"), [("qata_cov19", 0), ("mosmed_plus", 1), ("phantom", 0)]
)
def test_the_configured_data_set_is_what_the_gates_are_told(dataset, indicator):
    cfg = compose(["scale=smoke", "model=textmoe_seg", f"dataset={dataset}"])
    model = build(cfg, "model").eval()
    assert model.indicator == indicator
    image, text = torch.randn(2, 1, 96, 96), words(2, 16)
    with torch.no_grad():
        told = model.channels(image, text, torch.tensor([indicator, 1 - indicator]))
        own = model.channels(image, text)
    torch.testing.assert_close(own[0], told[0])
    assert not torch.allclose(own[1], told[1])


def test_either_loss_holds_down_the_similarity_of_the_experts(small):
    channels = torch.zeros(2, 3, 2, 2)
    extra = {"channels": channels, "similarity": torch.tensor([1.0, 3.0])}
    outputs = Outputs(channels[:, :1], extra)
    target = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).expand(2, 1, 2, 2)
    native = small().objective(outputs, target, None)
    # Dice 1 - 2 * 1 / (2 + 2); equal channels; a mean similarity of 2
    assert native.item() == pytest.approx(0.5 + 3 * math.log(3) / 2 + 0.1 * 2, abs=1e-5)
    shared = small(loss="shared").objective(outputs, target, lambda logits, t: (logits + t).sum())
    assert shared.item() == pytest.approx(4 + 0.1 * 2)


@torch.no_grad()
def test_sides_beyond_the_published_table_of_positions_are_possible(small):
    model = small(widths=(8, 8, 8, 8), image_side=320).eval()  # 80 x 80 tokens at stride 4
    assert model(torch.randn(1, 1, 320, 320), words(1, 16)).shape == (1, 1, 320, 320)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, r"model\.heads=5: .*width 16"),
        ({"heads": 0}, r"model\.heads=0"),
        ({"widths": (18, 24, 40, 64), "groups": 1}, r"first width 18 .*multiple of 4"),
        ({"indicators": {"own": 2}}, r"model\.indicators\.own=2: expected 0 .* or 1"),
        ({"loss": "dice"}, r"model\.loss=dice is unknown"),
        ({"image_side": 100}, r"100 px.*scale\.image_side=96 or scale\.image_side=128"),
    ],
)
def test_settings_that_do_not_fit_are_refused(small, changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)
